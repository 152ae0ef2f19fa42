#!/bin/sh
# Makes a Debian root the lab boots: make_root.sh FOLDER SUITE ARCHITECTURE. As root; a minute and 300 MB, more for an
# emulated architecture. It has what the package depends on, so that the package can be installed without a network;
# Debian's packages alone, no pip.
set -eu
root=$1
suite=$2
architecture=$3
fresh=$root.new
mirror=${REFLEXD_LAB_MIRROR:-http://deb.debian.org/debian}
rm -rf "$fresh"
mkdir -p "$(dirname "$root")"
debootstrap --arch="$architecture" --variant=minbase --include=systemd-sysv,dbus,libpam-systemd,ca-certificates,python3-minimal \
  "$suite" "$fresh" "$mirror"
packages="python3 python3-zmq python3-msgpack python3-numpy python3-pil python3-systemd python3-rich"
# Debian 12 has none: the package brings its own.
[ "$suite" = bookworm ] || packages="$packages python3-msgspec"
# debootstrap itself does not know virtual packages, which python3-zmq depends on.
# shellcheck disable=SC2086 # a list
DEBIAN_FRONTEND=noninteractive chroot "$fresh" apt-get install -y --no-install-recommends $packages
rm -rf "$fresh"/var/cache/apt/archives/*.deb "$fresh"/var/lib/apt/lists/*
rm -rf "$root"
mv "$fresh" "$root"
