// Replaces a test that needs the CUDA toolkit, if the toolkit is not installed.
#include <cstdio>

int main() {
  std::puts("SKIP: the tests of //cuda: no CUDA toolkit (nvcc) was found on this machine; CUDA_HOME names one");
  return 0;
}
