// Functions that nvcc compiles for GPUs and every compiler for the host, where they are tested.
#pragma once

#ifdef __CUDACC__
#define RONDO_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define RONDO_HOST_DEVICE inline
#endif
