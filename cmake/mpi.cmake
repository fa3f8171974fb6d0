# MPI: one implementation (bindings/mpi), and a library for each ABI that programs are built for.
# Entry points are written by generate.py from tables, while building; no MPI is needed.
find_program(Python_EXECUTABLE NAMES python3 python REQUIRED)
set(mpi ${CMAKE_CURRENT_SOURCE_DIR}/bindings/mpi)
set(mpi_made ${CMAKE_CURRENT_BINARY_DIR}/mpi_made)
file(MAKE_DIRECTORY ${mpi_made}/mpi ${mpi_made}/include)
file(GLOB mpi_generator CONFIGURE_DEPENDS ${mpi}/*.py)
file(GLOB mpi_tables CONFIGURE_DEPENDS ${mpi}/*.table ${mpi}/abi/*.table)
file(GLOB mpi_sources CONFIGURE_DEPENDS ${mpi}/core/*.cpp ${mpi}/types/*.cpp
  ${mpi}/comms/*.cpp ${mpi}/traffic/*.cpp ${mpi}/calls/*.cpp)

function(holdfast_mpi_generate)
  cmake_parse_arguments(PARSE_ARGV 0 made "" "" "OUT;COMMAND;DEPENDS")
  add_custom_command(OUTPUT ${made_OUT}
    COMMAND ${Python_EXECUTABLE} ${mpi}/generate.py ${made_COMMAND}
    DEPENDS ${mpi_generator} ${mpi_tables} ${made_DEPENDS}
    VERBATIM)
endfunction()

holdfast_mpi_generate(OUT ${mpi_made}/mpi/calls.h COMMAND calls ${mpi_made}/mpi/calls.h)
add_custom_target(holdfast_mpi_calls DEPENDS ${mpi_made}/mpi/calls.h)

# What is the same for all of them is compiled once.
add_library(holdfast_mpi_core OBJECT ${mpi_sources})
add_dependencies(holdfast_mpi_core holdfast_mpi_calls)
target_include_directories(holdfast_mpi_core PRIVATE ${mpi}/.. ${mpi_made})
target_link_libraries(holdfast_mpi_core PRIVATE holdfast holdfast_flags)
set_target_properties(holdfast_mpi_core PROPERTIES CXX_VISIBILITY_PRESET hidden)

# The folder of the package, the folder of the sources, the file's name, which is its soname. The
# native tests link the core alone.
function(holdfast_mpi_library folder abi file)
  set(made ${mpi_made}/${abi})
  file(MAKE_DIRECTORY ${made})
  holdfast_mpi_generate(OUT ${made}/mpi_values.h COMMAND values ${abi} ${made}/mpi_values.h)
  set(entries ${made}/entries_1.cpp ${made}/entries_2.cpp)
  holdfast_mpi_generate(OUT ${entries} COMMAND entries ${abi} ${mpi} ${entries}
    DEPENDS ${mpi_sources})
  set(sources ${mpi}/abi/${abi}/abi.cpp ${made}/mpi_values.h ${entries})
  if(abi STREQUAL openmpi)
    holdfast_mpi_generate(OUT ${made}/data.cpp COMMAND data ${made}/data.cpp)
    list(APPEND sources ${made}/data.cpp)
  endif()
  set(target holdfast_mpi_${folder})
  add_library(${target} SHARED ${sources} $<TARGET_OBJECTS:holdfast_mpi_core>)
  add_dependencies(${target} holdfast_mpi_calls)
  target_include_directories(${target} PRIVATE ${mpi}/.. ${mpi_made} ${made})
  # Open MPI's programs have copies of its variables: no -Bsymbolic, which would bind the library
  # to its own.
  target_link_libraries(${target} PRIVATE holdfast holdfast_flags
    -Wl,--version-script=${mpi}/exports.map)
  if(NOT HOLDFAST_SANITIZE)  # the sanitizers' own symbols come with the program
    target_link_options(${target} PRIVATE -Wl,--no-undefined)
  endif()
  set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME ${file} SUFFIX ""
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/mpi/${folder}
    LINK_DEPENDS ${mpi}/exports.map CXX_VISIBILITY_PRESET hidden UNITY_BUILD OFF
    INSTALL_RPATH "$ORIGIN/../.." EXCLUDE_FROM_ALL ${HOLDFAST_TESTS})
  install(TARGETS ${target} LIBRARY DESTINATION holdfast/mpi/${folder})
endfunction()

holdfast_mpi_library(abi standard libmpi_abi.so.1)
holdfast_mpi_library(mpich mpich libmpi.so.12)
holdfast_mpi_library(openmpi openmpi libmpi.so.40)

# Debian's name for MPICH's: nothing of its own, but it needs the other.
file(CONFIGURE OUTPUT ${mpi_made}/libmpich.cpp
  CONTENT "// A library of which only the name counts.\n")
add_library(holdfast_mpi_mpich_name SHARED ${mpi_made}/libmpich.cpp)
target_link_libraries(holdfast_mpi_mpich_name PRIVATE
  -Wl,--push-state,--no-as-needed holdfast_mpi_mpich -Wl,--pop-state)
set_target_properties(holdfast_mpi_mpich_name PROPERTIES PREFIX "" OUTPUT_NAME libmpich.so.12
  SUFFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/mpi/mpich INSTALL_RPATH "$ORIGIN")
install(TARGETS holdfast_mpi_mpich_name LIBRARY DESTINATION holdfast/mpi/mpich)

holdfast_mpi_generate(OUT ${mpi_made}/include/mpi.h COMMAND header ${mpi_made}/include/mpi.h)
add_custom_target(holdfast_mpi_header ALL DEPENDS ${mpi_made}/include/mpi.h)
holdfast_mpi_generate(OUT ${mpi_made}/unsupported.txt
  COMMAND unsupported ${mpi} ${mpi_made}/unsupported.txt DEPENDS ${mpi_sources})
add_custom_target(holdfast_mpi_unsupported ALL DEPENDS ${mpi_made}/unsupported.txt)
install(FILES ${mpi_made}/unsupported.txt DESTINATION holdfast/mpi)
install(FILES ${mpi_made}/include/mpi.h DESTINATION holdfast/mpi/include)
