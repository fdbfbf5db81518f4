// If the CUDA toolkit is not installed, this replaces a test that needs the toolkit.
#include <cstdio>

int main() {
  std::puts("SKIP: the tests of //cuda: no CUDA toolkit (nvcc) was found on this machine; CUDA_HOME names one");
  return 0;
}
