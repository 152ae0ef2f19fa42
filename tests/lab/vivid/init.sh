# The first and only program of the machine: brings up a camera, runs the guest's part of the tests, powers off.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
mount -t proc proc /proc
mount -t sysfs sys /sys
for folder in /tmp /run /dev/shm; do
  mkdir -p "$folder"
  mount -t tmpfs tmpfs "$folder"
done
mkdir -p /mnt/results
# udev names the camera by its path, again each time it is plugged in.
/usr/lib/systemd/systemd-udevd --daemon >/dev/null 2>&1
# One webcam and an output device, which is no camera.
modprobe vivid n_devs=1 node_types=0x101 num_inputs=1 input_types=0 multiplanar=1
udevadm settle
cd /mnt || exit
REFLEXD_WORKER=/mnt/worker/reflexd-worker PYTHONPATH=/mnt timeout 840 \
  python3 -m tests.lab.vivid.guest >results/guest.txt 2>&1
dmesg >results/dmesg.txt
cd / || exit
umount /mnt || mount -o remount,ro /mnt
sync
echo o >/proc/sysrq-trigger
sleep 10
