#!/bin/sh
# The root in which a real Picamera2 runs: Debian sid, for libcamera 0.7 with its virtual camera, and what the daemon
# needs of Python, all of it from Debian but Picamera2 itself. As root; two minutes, 1 GB.
# Usage: make_root.sh FOLDER PYTHON   FOLDER appears only when it is complete; PYTHON's pip fetches Picamera2
set -eu
root=$1
python=$2
fresh=$root.new
mirror=${REFLEXD_LAB_MIRROR:-http://deb.debian.org/debian}
rm -rf --one-file-system "$fresh"
mkdir -p "$(dirname "$root")"

debootstrap --variant=minbase --include=ca-certificates sid "$fresh" "$mirror"
chroot "$fresh" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
  python3 python3-libcamera libcamera-ipa python3-numpy python3-zmq python3-msgpack python3-msgspec python3-pil \
  python3-rich python3-prctl python3-av python3-jsonschema python3-piexif
version=$(chroot "$fresh" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
packages=/usr/local/lib/python$version/dist-packages
# The requirements that are not met here are encoders and previews, which a source does not use.
fetch() {
  "$python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$fresh$packages" "$@"
}
fetch --only-binary=:all: --python-version "$version" --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 \
  picamera2==0.3.38 simplejpeg v4l2-python3 videodev2
fetch pidng

# A preview on a screen, which nobody asks for, imports this.
cat >"$fresh$packages/pykms.py" <<'STUB'
class _Any:
    def __getattr__(self, name):
        return name


PixelFormat = _Any()
STUB
cat >"$fresh/usr/share/libcamera/pipeline/virtual/virtual.yaml" <<'CAMERA'
%YAML 1.1
---
"Virtual0":
  supported_formats:
  - width: 640
    height: 480
    frame_rates:
    - 30
    - 30
  test_pattern: "bars"
  location: "CameraLocationFront"
  model: "Virtual Video Device"
CAMERA
# The camera without a clock and without buffers of a device has to be put in Picamera2's place.
printf '\nfrom virtual_camera import PacedVCam as Picamera2\n' >>"$fresh$packages/picamera2/__init__.py"
ln -s /lab-shim/virtual_camera.py "$fresh$packages/virtual_camera.py"
chroot "$fresh" apt-get clean
mv "$fresh" "$root"
