# Instruction levels of the loops of reductions, codecs and packing. No contraction anywhere: a
# fused multiply-add rounds once where the reference rounds twice, and all levels must give the same
# bits.
set(vectorise "-O3;-ffp-contract=off")
set(avx512 "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mf16c;-mprefer-vector-width=512")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 takes what its own intrinsics leave undefined on purpose for a mistake.
  list(APPEND avx512 "-Wno-maybe-uninitialized;-Wno-uninitialized")
endif()
get_filename_component(root ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)
foreach(folder ${root}/native/comm/reduce ${root}/native/compress/loops
        ${root}/native/datatype/loops ${root}/native/erasure/loops)
  set_source_files_properties(${folder}/reference.cpp PROPERTIES COMPILE_OPTIONS
    "-ffp-contract=off;-fno-tree-vectorize")
  set_source_files_properties(${folder}/level_baseline.cpp PROPERTIES COMPILE_OPTIONS
    "${vectorise}")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set_source_files_properties(${folder}/level_avx2.cpp PROPERTIES COMPILE_OPTIONS
      "${vectorise};-mavx2;-mf16c")
    set_source_files_properties(${folder}/level_avx512.cpp PROPERTIES COMPILE_OPTIONS
      "${vectorise};${avx512}")
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    set_source_files_properties(${folder}/level_neon.cpp PROPERTIES COMPILE_OPTIONS
      "${vectorise};-DHOLDFAST_NEON")
  endif()
endforeach()
# Beside the levels: processors of the AVX-512 level that also permute bytes, and those of either
# level that multiply bytes by matrices of bits.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set_source_files_properties(${root}/native/datatype/loops/byte_shuffles.cpp PROPERTIES
    COMPILE_OPTIONS "${vectorise};${avx512};-mavx512vbmi")
  set_source_files_properties(${root}/native/erasure/loops/level_galois256.cpp PROPERTIES
    COMPILE_OPTIONS "${vectorise};-mavx2;-mf16c;-mgfni")
  set_source_files_properties(${root}/native/erasure/loops/level_galois512.cpp PROPERTIES
    COMPILE_OPTIONS "${vectorise};${avx512};-mgfni")
endif()
