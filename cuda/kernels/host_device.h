// Macros for functions that nvcc compiles for GPUs, and that every compiler compiles for the host, where tests run
// them.
#pragma once

#ifdef __CUDACC__
#define RONDO_HOST_DEVICE __host__ __device__ __forceinline__
// An array that is indexed by a loop variable stays in registers only if the loop is unrolled.
#define RONDO_UNROLL _Pragma("unroll")
#else
#define RONDO_HOST_DEVICE inline
#define RONDO_UNROLL
#endif
