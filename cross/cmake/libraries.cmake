# SHA-256, linked statically: a device needs no library beside ExecuTorch's own and the C++ runtime.
find_path(headers_mbedtls mbedtls/md.h REQUIRED NO_CMAKE_FIND_ROOT_PATH)
# Debian keeps the libraries of every architecture in a folder of its name: that one, never another's.
find_library(mbedcrypto libmbedcrypto.a REQUIRED
  PATHS /usr/lib/${CMAKE_CXX_LIBRARY_ARCHITECTURE} NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH)
add_library(reflexd_mbedcrypto STATIC IMPORTED)
set_target_properties(reflexd_mbedcrypto PROPERTIES
  IMPORTED_LOCATION ${mbedcrypto}
  INTERFACE_INCLUDE_DIRECTORIES ${headers_mbedtls})
