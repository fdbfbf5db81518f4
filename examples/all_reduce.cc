// Every rank contributes its number, and every rank gets the sum.
//
//   rondo run -N 4 -- bazel-bin/examples/all_reduce
#include <cstdio>

#include "collectives/connect.h"

int main() {
  auto communicator = rondo::Connect({.rendezvous = "env://", .environment = rondo::ProcessEnvironment});
  if (!communicator) return std::fprintf(stderr, "%s\n", communicator.error().ToString().c_str()), 1;

  float value = static_cast<float>((*communicator)->rank() + 1);
  const auto status = (*communicator)->AllReduce(&value, &value, 1, rondo::DataType::kFloat32, rondo::ReduceOp::kSum);
  if (!status) return std::fprintf(stderr, "%s\n", status.error().ToString().c_str()), 1;

  std::printf("rank %d of %d: the sum is %g\n", (*communicator)->rank(), (*communicator)->world_size(), value);
  return (*communicator)->Close() ? 0 : 1;
}
