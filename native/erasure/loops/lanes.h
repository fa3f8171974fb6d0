// Vectors of an instruction level, and how it multiplies them by a constant: by tables that are
// looked up, or, where a file is compiled for GFNI, by matrices. Everything has internal linkage,
// or the linker could pick a copy compiled for a newer processor.
#pragma once

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#include "erasure/loops/lanes_avx512.h"
#elif defined(__AVX2__)
#include "erasure/loops/lanes_avx2.h"
#elif defined(HOLDFAST_NEON)
#include "erasure/loops/lanes_neon.h"
#endif

#if defined(__GFNI__)
#include "erasure/loops/lanes_galois.h"
#else
#include "erasure/loops/lanes_halves.h"
#endif
