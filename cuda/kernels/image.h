// The fatbin with all kernels, linked into the program as data. Its functions are rondo_device_reduce_<type>_<op>
// (reduce.h) and rondo_device_barrier (barrier.h).
#pragma once

extern "C" const unsigned char rondo_cuda_image[];
