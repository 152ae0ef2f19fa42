# 64-bit Arm Linux with Debian's cross compiler (g++-aarch64-linux-gnu).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

# The first 64-bit baseline: a Cortex-A53 (Pi 3, Pi Zero 2) has neither the atomics of later ones (the compiler's
# helpers that would choose between them at run time are left out as well) nor a clean bill for two of its own
# instructions.
set(CMAKE_CXX_FLAGS_INIT "-march=armv8-a -mno-outline-atomics -mfix-cortex-a53-835769 -mfix-cortex-a53-843419")

# Programs come from this machine, everything else from the target's root.
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
