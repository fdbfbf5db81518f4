// The fatbin with all kernels, linked into the program as data. Its functions are rondo_fold_<type>_<op> (fold.h) and
// rondo_meet (meet.h).
#pragma once

extern "C" const unsigned char rondo_cuda_image[];
