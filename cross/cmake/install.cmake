# One folder that can be moved anywhere: the worker, the libraries it needs beside it, and their licence.
set_target_properties(reflexd-worker PROPERTIES INSTALL_RPATH "$ORIGIN")
install(TARGETS reflexd-worker RUNTIME DESTINATION .)
install(IMPORTED_RUNTIME_ARTIFACTS ${REFLEXD_EXECUTORCH_TARGETS} LIBRARY DESTINATION . RUNTIME DESTINATION .)

file(GLOB licence ${sdk}/../executorch-${REFLEXD_EXECUTORCH}*.dist-info/licenses/LICENSE)
if(NOT licence)
  message(FATAL_ERROR "${sdk}: expected the licence of ExecuTorch beside it")
endif()
install(FILES ${licence} DESTINATION . RENAME LICENSE.executorch)
install(FILES ${CMAKE_CURRENT_SOURCE_DIR}/../LICENSE DESTINATION .)
