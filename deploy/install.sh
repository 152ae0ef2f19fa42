#!/bin/sh
# Installs reflexd for systemd: deploy/install.sh [DESTDIR]. What it needs of Debian: python3 (3.11 or newer) with zmq,
# msgpack, msgspec, numpy, pil, systemd and rich; of this checkout: the native worker of the target's machine, built
# (`make worker`, or `make worker-aarch64` and MACHINE=aarch64).
# Afterwards, on the system it was installed for: `python3 -m compileall -q /usr/lib/reflexd` (services cannot write there
# and would compile anew at each start), `systemd-sysusers`, `systemctl daemon-reload`.
set -eu
destination=${1:-}
machine=${MACHINE:-$(uname -m)}
here=$(cd "$(dirname "$0")" && pwd)
source=$(dirname "$here")
worker=$source/cross/dist/$machine
library=$destination/usr/lib/reflexd
units=$destination/usr/lib/systemd/system

if [ ! -x "$worker/reflexd-worker" ]; then
    echo "install.sh: $worker/reflexd-worker: not there: build it first (make worker, make worker-aarch64)" >&2
    exit 1
fi

# What an earlier version had and this one has not must not stay.
rm -rf "$library"
mkdir -p "$library/worker"
(cd "$source" && find daemon -name '*.py' -exec install -D -m 644 {} "$library/{}" \;)
rm -rf "$library/daemon/export" # the host's side: it needs torch
cp "$worker"/* "$library/worker/"

install -D -m 755 "$here/systemd/reflexd" "$destination/usr/bin/reflexd"
install -D -m 755 "$here/systemd/reflexd-generator" "$destination/usr/lib/systemd/system-generators/reflexd-generator"
install -D -m 644 "$here/systemd/sysusers.conf" "$destination/usr/lib/sysusers.d/reflexd.conf"
(cd "$here/systemd/units" && find . -type f -exec install -D -m 644 {} "$units/{}" \;)
install -d -m 755 "$destination/etc/reflexd"
