#!/bin/sh
# Says in one sentence what the build lacks: `prerequisites.sh COMPILER LIBRARY-FOLDER INSTALL-COMMAND`.
# COMPILER makes the worker, LIBRARY-FOLDER has the target's libraries, the command brings what is looked for.
compiler=$1 libraries=$2 command=$3
missing=
command -v "$compiler" >/dev/null || missing="$missing $compiler"
for file in /usr/include/msgpack.hpp /usr/include/nlohmann/json.hpp /usr/include/openssl/sha.h \
  "$libraries/libcrypto.a"; do
  [ -e "$file" ] || missing="$missing $file"
done
[ -z "$missing" ] && exit 0
echo "The native worker cannot be built here, it lacks$missing; install what is missing: $command" >&2
exit 1
