# libholdfast.so: the core with its C interface, its status page and its kernels.
file(GLOB_RECURSE HOLDFAST_SOURCES CONFIGURE_DEPENDS native/*.cpp)
set(page_folder ${CMAKE_CURRENT_SOURCE_DIR}/native/health/page)
set(page_source ${CMAKE_CURRENT_BINARY_DIR}/status_page.cpp)
add_custom_command(OUTPUT ${page_source}
  COMMAND ${CMAKE_COMMAND} -DFOLDER=${page_folder} -DOUT=${page_source}
    -P ${CMAKE_CURRENT_SOURCE_DIR}/cmake/page.cmake
  DEPENDS cmake/page.cmake ${page_folder}/status.html ${page_folder}/style.css
    ${page_folder}/script.js
  VERBATIM)
file(STRINGS bindings/holdfast/__init__.py version_line REGEX "^__version__ = ")
string(REGEX MATCH "[0-9][^\"]*" holdfast_version "${version_line}")
# The C interface reads the environment as bindings do, but lives in the core's library.
file(GLOB HOLDFAST_C_SOURCES CONFIGURE_DEPENDS bindings/c/*.cpp)
add_library(holdfast SHARED ${HOLDFAST_SOURCES} ${HOLDFAST_C_SOURCES} ${page_source})
target_include_directories(holdfast PUBLIC native native/include)
# The page is written by a build, so that clang-tidy, which reads the others eight at a time, may
# not find it.
set_source_files_properties(${page_source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
set_source_files_properties(bindings/c/errors.cpp native/health/metrics.cpp PROPERTIES
  COMPILE_DEFINITIONS "HOLDFAST_VERSION=\"${holdfast_version}\"")
target_link_options(holdfast PRIVATE
  -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/bindings/c/exports.map)
set_target_properties(holdfast PROPERTIES LINK_DEPENDS
  ${CMAKE_CURRENT_SOURCE_DIR}/bindings/c/exports.map)
install(DIRECTORY native/include/holdfast DESTINATION holdfast/include)
target_link_libraries(holdfast PRIVATE Threads::Threads ${CMAKE_DL_LIBS} holdfast_flags)
# A plan, and the choice of one, has the same bits on every machine: no contraction.
file(GLOB forest_sources CONFIGURE_DEPENDS native/topology/forest/*.cpp)
set_source_files_properties(${forest_sources} native/comm/plan/map_price.cpp
  PROPERTIES COMPILE_OPTIONS "-ffp-contract=off")
include(cmake/simd.cmake OPTIONAL)
include(cmake/zstd.cmake)
include(cmake/openssl.cmake)
include(cmake/ucx.cmake)
include(cmake/cuda.cmake)
if(NOT HOLDFAST_SANITIZE)  # the sanitizers' own symbols come with the program
  target_link_options(holdfast PRIVATE -Wl,--no-undefined)
endif()

# Inside the package, beside the modules that link it: they find it, and each other, at $ORIGIN.
set_target_properties(holdfast PROPERTIES INSTALL_RPATH "$ORIGIN")
install(TARGETS holdfast LIBRARY DESTINATION holdfast)
