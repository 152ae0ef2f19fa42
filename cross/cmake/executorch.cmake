# The C++ side of the ExecuTorch wheel, of exactly the version the exporter uses.
if(NOT REFLEXD_SDK)
  execute_process(
    COMMAND ${REFLEXD_PYTHON} -c
      "import importlib.util as u; print(next(iter(u.find_spec('executorch').submodule_search_locations)))"
    OUTPUT_VARIABLE sdk OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "${REFLEXD_PYTHON} has no executorch: run `make venv`, or set REFLEXD_SDK")
  endif()
else()
  set(sdk ${REFLEXD_SDK})
endif()

file(STRINGS ${CMAKE_CURRENT_SOURCE_DIR}/../pyproject.toml pin REGEX "executorch==")
string(REGEX REPLACE ".*executorch==([0-9.]+).*" "\\1" REFLEXD_EXECUTORCH "${pin}")

set(components runtime kernels_optimized kernels_quantized backend_xnnpack threadpool etdump)
find_package(executorch ${REFLEXD_EXECUTORCH} EXACT CONFIG REQUIRED COMPONENTS ${components}
  PATHS ${sdk} NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH)
list(TRANSFORM components PREPEND executorch:: OUTPUT_VARIABLE REFLEXD_EXECUTORCH_TARGETS)

# The package's targets put its own folder on the binary's search path. The libraries lie beside the binary instead.
foreach(target IN LISTS REFLEXD_EXECUTORCH_TARGETS)
  get_target_property(options ${target} INTERFACE_LINK_OPTIONS)
  list(FILTER options EXCLUDE REGEX "-rpath,")
  set_target_properties(${target} PROPERTIES INTERFACE_LINK_OPTIONS "${options}")
endforeach()
