#!/bin/sh
# Makes the Debian root the lab boots: make_root.sh FOLDER. As root; a minute and 300 MB. Debian's packages alone: no pip.
set -eu
root=$1
fresh=$root.new
suite=${REFLEXD_LAB_SUITE:-trixie}
mirror=${REFLEXD_LAB_MIRROR:-http://deb.debian.org/debian}
rm -rf "$fresh"
mkdir -p "$(dirname "$root")"
debootstrap --variant=minbase --include=systemd-sysv,dbus,libpam-systemd,ca-certificates,python3-minimal \
  "$suite" "$fresh" "$mirror"
# debootstrap itself does not know virtual packages, which python3-zmq depends on.
DEBIAN_FRONTEND=noninteractive chroot "$fresh" apt-get install -y --no-install-recommends \
  python3 python3-zmq python3-msgpack python3-msgspec python3-numpy python3-pil python3-systemd python3-rich
rm -rf "$fresh"/var/cache/apt/archives/*.deb "$fresh"/var/lib/apt/lists/*
rm -rf "$root"
mv "$fresh" "$root"
