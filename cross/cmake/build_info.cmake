# build_info.hpp: the versions this build is made of, for `reflexd-worker --version`.
execute_process(
  COMMAND git describe --always --dirty --abbrev=12 --exclude=*
  WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}
  OUTPUT_VARIABLE REFLEXD_GIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT REFLEXD_GIT)
  set(REFLEXD_GIT unknown)
endif()
set(REFLEXD_BUILD_INFO ${CMAKE_CURRENT_BINARY_DIR}/build_info)
configure_file(src/build_info.hpp.in ${REFLEXD_BUILD_INFO}/build_info.hpp @ONLY)
