#!/bin/sh
# Makes dist/reflexd_VERSION_ARCH.deb: deploy/debian/build.sh amd64|arm64, by `make deb`. The worker for it is there
# already (`make worker`, `make worker-aarch64`), and nothing else is compiled.
set -eu
arch=$1
case $arch in
amd64) machine=x86_64 ;;
arm64) machine=aarch64 ;;
*) echo "build.sh: expected amd64 or arm64, got $arch" >&2 && exit 2 ;;
esac
here=$(cd "$(dirname "$0")" && pwd)
source=$(dirname "$(dirname "$here")")
python=$source/.venv/bin/python
worker=$source/cross/dist/$machine
if [ ! -x "$worker/reflexd-worker" ]; then
    echo "build.sh: $worker/reflexd-worker: not there: build it first (make worker, make worker-aarch64)" >&2
    exit 1
fi
missing=$(cd "$(dirname "$here")" && dpkg-checkbuilddeps debian/control 2>&1 >/dev/null) || {
    echo "build.sh: $missing" >&2
    echo "install them: apt install debhelper dh-python lowdown" >&2
    exit 1
}
if [ ! -e "/usr/lib/$machine-linux-gnu/libstdc++.so.6" ]; then
    echo "build.sh: the other machine's libraries, to find their packages: apt install libstdc++6:$arch" >&2
    exit 1
fi

tree=$source/build/debian/$arch/reflexd
rm -rf "$(dirname "$tree")"
mkdir -p "$tree/bash-completion" "$tree/docs" "$source/dist"
cd "$source"
cp -r deploy/debian "$tree/debian"
cp -r deploy/systemd models/pong/package "$tree"
cp -r "$worker" "$tree/worker"
cp docs/*.md "$tree/docs"
mv "$tree/debian/reflexd.toml" "$tree"
cp deploy/systemd/sysusers.conf "$tree/debian/reflexd.sysusers"
# Without export, the host's side: it needs torch. Licences are all in /usr/share/doc/reflexd/copyright.
find daemon -name '*.py' ! -path 'daemon/export/*' -exec install -D -m 644 {} "$tree/{}" \;
rm "$tree"/worker/LICENSE*

# What a release lacks goes into a folder named after that release's Python, which no other looks into.
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --only-binary=:all: \
    --require-hashes --platform "manylinux_2_17_$machine" --python-version 3.11 --implementation cp \
    --target "$tree/python3.11" -r deploy/debian/requirements.txt
find "$tree/python3.11" -name '*.pyi' -delete
rm -r "$tree"/python3.11/*.dist-info "$tree/python3.11/msgspec/py.typed"

# The page and the completion of a command line are made from its own parser.
describe() { # PROGRAM MODULE FUNCTION DESCRIPTION
    "$python" -m shtab --shell=bash --prog="$1" --prefix="$1" "$2.$3" |
        sed 's/^complete -o bashdefault /&-o default /' >"$tree/bash-completion/$1" # files, where it knows no word
    "$source/.venv/bin/argparse-manpage" --module "$2" --function "$3" --project-name reflexd --prog "$1" \
        --description "$4" --manual-title "User commands" --output "$tree/$1.1"
}
describe reflexd daemon.cli _parser "run learned policies that act on this machine"
describe reflexctl daemon.ctl.cli parser "watch and command devices that run reflexd"

cd "$tree"
DEB_BUILD_OPTIONS=nocheck dpkg-buildpackage --build=binary --host-arch "$arch" --build-profiles=nocheck \
    --no-check-builddeps --no-sign >"../build.log" 2>&1 || {
    tail -n 30 ../build.log >&2
    exit 1
}
mv "../reflexd_"*"_$arch.deb" "$source/dist"
echo "built dist/$(cd "$source/dist" && ls -t reflexd_*_"$arch".deb | head -n 1)"
