# Kernels: each .cu of native/ is compiled as C++ for the emulator, always, and by nvcc to an image
# that the driver loads, where there is an nvcc. The images lie in the library as read-only data;
# no CUDA library is linked.
#   HOLDFAST_CUDA=AUTO  with the nvcc of PATH, CUDA_HOME or the Python environment, or without any
#   HOLDFAST_CUDA=ON    an error without one
#   HOLDFAST_CUDA=OFF   no images: the kernels run on the emulator alone
set(HOLDFAST_CUDA AUTO CACHE STRING "Compile the kernels by nvcc: AUTO, ON or OFF")
set_property(CACHE HOLDFAST_CUDA PROPERTY STRINGS AUTO ON OFF)

# Machine code for what data centres have, PTX for what comes later: 8.6 and 8.9 run 8.0's.
set(HOLDFAST_CUDA_TARGETS
  "arch=compute_80,code=sm_80" "arch=compute_90,code=[sm_90,compute_90]"
  CACHE STRING "nvcc's -gencode, one to a target")
# The same bits as on processors: no contraction. Functions that are constexpr may run on a device.
set(nvcc_flags -fatbin -std=c++20 -O3 -fmad=false --expt-relaxed-constexpr --compress-mode=size
  -Werror all-warnings)

file(GLOB_RECURSE HOLDFAST_KERNELS CONFIGURE_DEPENDS native/*.cu)
set_source_files_properties(${HOLDFAST_KERNELS} PROPERTIES
  LANGUAGE CXX COMPILE_OPTIONS "-ffp-contract=off")
target_sources(holdfast PRIVATE ${HOLDFAST_KERNELS})

# Where pip puts NVIDIA's packages: nvidia/cu13/bin, whatever the release of 13.
function(holdfast_find_nvcc)
  if(HOLDFAST_CUDA STREQUAL OFF)
    unset(HOLDFAST_NVCC CACHE)
    return()
  endif()
  if(NOT Python_EXECUTABLE)
    find_program(Python_EXECUTABLE NAMES python3 python)
  endif()
  set(site "")
  if(Python_EXECUTABLE)
    execute_process(OUTPUT_VARIABLE site ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE
      COMMAND ${Python_EXECUTABLE} -c "import sysconfig; print(sysconfig.get_path('purelib'))")
  endif()
  find_program(HOLDFAST_NVCC nvcc DOC "The compiler of kernels"
    HINTS "${site}/nvidia/cu13/bin" ENV CUDA_HOME ENV CUDA_PATH PATH_SUFFIXES bin)
  mark_as_advanced(HOLDFAST_NVCC)
  set(problem "there is no nvcc in PATH, in CUDA_HOME or in ${site}/nvidia/cu13/bin")
  if(HOLDFAST_NVCC)
    execute_process(COMMAND ${HOLDFAST_NVCC} --version OUTPUT_VARIABLE version ERROR_QUIET)
    string(REGEX MATCH "release ([0-9.]+)" version "${version}")
    if(CMAKE_MATCH_1 VERSION_GREATER_EQUAL 12.8)  # knows --compress-mode
      return()
    endif()
    set(problem "${HOLDFAST_NVCC} is of release '${CMAKE_MATCH_1}', accepted is 12.8 or newer")
    unset(HOLDFAST_NVCC CACHE)
  endif()
  if(HOLDFAST_CUDA STREQUAL AUTO)
    message(STATUS "Kernels: ${problem}")
  else()
    message(FATAL_ERROR "HOLDFAST_CUDA=ON, and ${problem}. `.ci/python.sh cuda VENV` installs one.")
  endif()
endfunction()
holdfast_find_nvcc()

# An image is a GPU's code alone: the compiler beside nvcc only preprocesses, and a cross compiler
# is none that nvcc knows.
set(nvcc_host ${CMAKE_CXX_COMPILER})
if(CMAKE_CROSSCOMPILING)
  find_program(HOLDFAST_NVCC_HOST NAMES g++ c++ REQUIRED)
  mark_as_advanced(HOLDFAST_NVCC_HOST)
  set(nvcc_host ${HOLDFAST_NVCC_HOST})
endif()
set(images "")
if(HOLDFAST_NVCC)
  list(TRANSFORM HOLDFAST_CUDA_TARGETS PREPEND "-gencode;" OUTPUT_VARIABLE nvcc_targets)
  foreach(kernel ${HOLDFAST_KERNELS})
    get_filename_component(name ${kernel} NAME_WE)
    set(image ${CMAKE_CURRENT_BINARY_DIR}/kernels/${name}.fatbin)
    add_custom_command(OUTPUT ${image}
      COMMAND ${HOLDFAST_NVCC} ${nvcc_flags} ${nvcc_targets} -ccbin ${nvcc_host}
        -I${CMAKE_CURRENT_SOURCE_DIR}/native -MD -MF ${image}.d -MT ${image} -o ${image} ${kernel}
      DEPENDS ${kernel} DEPFILE ${image}.d COMMENT "nvcc ${name}.cu" VERBATIM)
    list(APPEND images ${image})
  endforeach()
  message(STATUS "Kernels: ${HOLDFAST_NVCC}")
else()
  message(STATUS "Kernels: they run on the emulator alone")
endif()
set(images_source ${CMAKE_CURRENT_BINARY_DIR}/kernels/images.cpp)
set(HOLDFAST_IMAGES ${images})
include(${CMAKE_CURRENT_LIST_DIR}/kernel_images.cmake)
set_source_files_properties(${images_source} PROPERTIES OBJECT_DEPENDS "${images}"
  SKIP_UNITY_BUILD_INCLUSION ON)
target_sources(holdfast PRIVATE ${images_source})
