// Functions that nvcc compiles for GPUs and every compiler for the host, where they are tested.
#pragma once

#ifdef __CUDACC__
#define RONDO_HOST_DEVICE __host__ __device__ __forceinline__
// An array that a loop walks stays in registers only where the loop is unrolled.
#define RONDO_UNROLL _Pragma("unroll")
#else
#define RONDO_HOST_DEVICE inline
#define RONDO_UNROLL
#endif
