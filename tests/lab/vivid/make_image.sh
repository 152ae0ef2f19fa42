#!/bin/sh
# Makes the machine in which vivid, the kernel's virtual camera, runs: Debian 13 with its own kernel. As root; two
# minutes, 0.9 GB. Everything is Debian's, nothing of it is mounted to be made.
# Usage: make_image.sh FOLDER   FOLDER appears only when it is complete: vmlinuz, initrd, root.ext4
set -eu
folder=$1
fresh=$folder.new
root=$fresh/root
mirror=${REFLEXD_LAB_MIRROR:-http://deb.debian.org/debian}
rm -rf --one-file-system "$fresh"
mkdir -p "$fresh"

debootstrap --variant=minbase --include=ca-certificates,kmod,udev trixie "$root" "$mirror"
DEBIAN_FRONTEND=noninteractive chroot "$root" apt-get install -y -qq --no-install-recommends \
  linux-image-amd64 v4l-utils \
  python3 python3-av python3-zmq python3-msgpack python3-msgspec python3-numpy python3-pil python3-systemd python3-rich
# What the emulated machine has, and no more: a third of the time to boot.
printf 'MODULES=list\nCOMPRESS=gzip\n' >"$root/etc/initramfs-tools/conf.d/lab"
printf 'virtio_pci\nvirtio_blk\next4\n' >>"$root/etc/initramfs-tools/modules"
chroot "$root" update-initramfs -u
chroot "$root" apt-get clean
rm -rf "$root"/var/lib/apt/lists/* "$root"/usr/share/doc/* "$root"/usr/share/man/* "$root"/usr/share/locale/*

cat >"$root/usr/local/sbin/lab-init" <<'INIT'
#!/bin/sh
mount /dev/vdb /mnt
exec sh /mnt/init.sh
INIT
chmod 755 "$root/usr/local/sbin/lab-init"
cp "$root/vmlinuz" "$fresh/vmlinuz"
cp "$root/initrd.img" "$fresh/initrd"
mke2fs -q -t ext4 -d "$root" "$fresh/root.ext4" 1300M
rm -rf --one-file-system "$root"
rm -rf "$folder"
mv "$fresh" "$folder"
