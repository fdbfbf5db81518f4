// The instruction sets for which kernels are compiled. Must be included before any Highway header.
//
// On x86, Highway 1.0 offers SSE4, AVX2, AVX3 (AVX-512), and a fallback in plain C++ (EMU128; SCALAR for compilers that
// miscompile EMU128: GCC before 12.3). Two sets are left out to compile less: SSSE3, whose processors use the fallback,
// and AVX3_DL, which adds no instruction that these kernels use. On other processors all sets of Highway are compiled.
#pragma once

#ifdef HWY_TARGETS
#error "include this header before any of Highway"
#endif
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
