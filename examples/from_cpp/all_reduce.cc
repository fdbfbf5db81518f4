// Rondo from C++17: averages gradients while the next ones are computed.
//
//   cmake -B build -DCMAKE_PREFIX_PATH=.../rondo-0.1.0 && cmake --build build && rondo run -N 4 build/all_reduce
#include <cstdio>
#include <rondo.hpp>
#include <vector>

int main() try {
  rondo::Comm comm = rondo::Comm::Connect();
  std::vector<float> first(1000, static_cast<float>(comm.rank())), second(1000, 1);
  rondo::Work averaging = comm.AllReduceAsync(first.data(), first.data(), first.size(), RONDO_AVG);
  for (float& gradient : second) gradient *= 2;  // computed while the first gradients are reduced
  averaging.Wait();
  comm.AllReduce(second.data(), second.data(), second.size(), RONDO_AVG);
  comm.Close();
  std::printf("rank %d of %d: the averages are %g and %g\n", comm.rank(), comm.world_size(), first.back(),
              second.back());
} catch (const rondo::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
