# SHA-256, linked statically: a device needs no library beside ExecuTorch's own and the C++ runtime.
find_path(headers_openssl openssl/sha.h REQUIRED NO_CMAKE_FIND_ROOT_PATH)
# Debian keeps the libraries of every architecture in a folder of its name: that one, never another's.
find_library(libcrypto libcrypto.a REQUIRED
  PATHS /usr/lib/${CMAKE_CXX_LIBRARY_ARCHITECTURE} NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH)
add_library(reflexd_crypto STATIC IMPORTED)
set_target_properties(reflexd_crypto PROPERTIES
  IMPORTED_LOCATION ${libcrypto}
  INTERFACE_INCLUDE_DIRECTORIES "${headers_openssl};/usr/include/${CMAKE_CXX_LIBRARY_ARCHITECTURE}")
