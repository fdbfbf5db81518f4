// The fatbin with all kernels, as data of the program. Its functions' names are fold.h's: rondo_fold_<type>_<op>.
#pragma once

extern "C" const unsigned char rondo_cuda_image[];
