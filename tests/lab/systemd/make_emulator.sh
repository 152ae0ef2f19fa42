#!/bin/sh
# Puts an emulator of 64-bit Arm that systemd runs under into a folder: make_emulator.sh FOLDER. Debian 13's: 12's own
# QEMU, 7.2, lacks what a newer systemd asks for. For Debian on x86-64; 70 MB to download, 7 MB kept.
set -eu
folder=$1
fresh=$folder.new
mirror=${REFLEXD_LAB_MIRROR:-http://deb.debian.org/debian}
rm -rf "$fresh"
mkdir -p "$fresh/lists/partial" "$fresh/cache/archives/partial"
echo "deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >"$fresh/sources.list"
apt() {
    apt-get -q -o Dir::Etc::SourceList="$fresh/sources.list" -o Dir::Etc::SourceParts=- -o Dir::State::Lists="$fresh/lists" \
        -o Dir::Cache="$fresh/cache" -o APT::Sandbox::User=root "$@"
}
apt update
(cd "$fresh" && apt download qemu-user)
dpkg-deb --extract "$fresh"/qemu-user_*.deb "$fresh/unpacked"
mkdir "$fresh/bin"
mv "$fresh/unpacked/usr/bin/qemu-aarch64" "$fresh/bin"
rm -r "$fresh/unpacked" "$fresh/lists" "$fresh/cache" "$fresh"/qemu-user_*.deb "$fresh/sources.list"
mv "$fresh" "$folder"
