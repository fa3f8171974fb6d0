# UCX, for the transport "ucx": its headers alone, whose types change with the release. Its library
# is opened when the transport is asked for, so that a wheel needs none on its host. Without the
# headers the library builds, and the transport says what it lacks.
find_path(UCX_INCLUDE_DIR ucp/api/ucp.h)
mark_as_advanced(UCX_INCLUDE_DIR)
set(ucx_sources "")
foreach(part api channel worker)
  list(APPEND ucx_sources ${CMAKE_SOURCE_DIR}/native/comm/transport/ucx/${part}.cpp)
endforeach()
# With the headers they have settings of their own; without, unity builds group the others alike.
set_source_files_properties(${ucx_sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
if(UCX_INCLUDE_DIR)
  set_source_files_properties(${ucx_sources} PROPERTIES
    COMPILE_DEFINITIONS HOLDFAST_UCX INCLUDE_DIRECTORIES "${UCX_INCLUDE_DIR}")
else()
  message(STATUS "ucp/api/ucp.h not found: the transport ucx is left out")
endif()
