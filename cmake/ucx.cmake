# UCX, for the transport "ucx": its headers alone, whose types change with the release. Its library
# is opened when the transport is asked for, so that a wheel needs none on its host. Without the
# headers the library builds, and the transport says what it lacks.
find_path(UCX_INCLUDE_DIR ucp/api/ucp.h)
mark_as_advanced(UCX_INCLUDE_DIR)
if(UCX_INCLUDE_DIR)
  foreach(part ucx_api ucx_channel ucx_worker)
    set_source_files_properties(${CMAKE_SOURCE_DIR}/native/comm/transport/${part}.cpp PROPERTIES
      COMPILE_DEFINITIONS HOLDFAST_UCX INCLUDE_DIRECTORIES "${UCX_INCLUDE_DIR}")
  endforeach()
else()
  message(STATUS "ucp/api/ucp.h not found: the transport ucx is left out")
endif()
