// The instruction sets that kernels are compiled for. Include before any header of Highway.
//
// Of what Highway 1.0 offers on x86: SSE4, AVX2, AVX3 (AVX-512), and a fallback in plain C++ (EMU128; with compilers
// that miscompile that one, GCC before 12.3, SCALAR). Left out, to compile less: SSSE3, whose processors take the
// fallback, and AVX3_DL, which adds nothing that these kernels use. Elsewhere: everything Highway offers.
#pragma once

#ifdef HWY_TARGETS
#error "include this header before any of Highway"
#endif
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
