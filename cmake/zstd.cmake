# libzstd, for the codecs that entropy-code. The static one where there is one, so that a wheel
# needs nothing from its host; its symbols stay hidden, or they would meet another copy in the
# process. Without it the library builds, and those codecs say what they lack.
find_path(ZSTD_INCLUDE_DIR zstd.h)
find_library(ZSTD_LIBRARY NAMES libzstd.a zstd)
mark_as_advanced(ZSTD_INCLUDE_DIR ZSTD_LIBRARY)
if(ZSTD_INCLUDE_DIR AND ZSTD_LIBRARY)
  set_source_files_properties(${CMAKE_SOURCE_DIR}/native/compress/zstd_bytes.cpp PROPERTIES
    COMPILE_DEFINITIONS HOLDFAST_ZSTD INCLUDE_DIRECTORIES "${ZSTD_INCLUDE_DIR}")
  target_link_libraries(holdfast PRIVATE ${ZSTD_LIBRARY})
  target_link_options(holdfast PRIVATE -Wl,--exclude-libs,libzstd.a)
else()
  message(STATUS "libzstd not found: the codecs zstd and bfloat's dense tier are left out")
endif()
