// A program with a bug that only one rank has: what the others do, it does differently. Every rank must be told what
// each of both sides called. Usage: rondo run -N 3 -- mismatch collective|count|type|op|root|order|stuck
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "collectives/connect.h"

int main(int argc, char** argv) {
  const std::string difference = argc > 1 ? argv[1] : "";
  rondo::ConnectOptions options;
  options.rendezvous = "env://";
  options.environment = rondo::ProcessEnvironment;
  options.timeout = std::chrono::seconds(difference == "stuck" ? 2 : 20);
  const auto communicator = rondo::Connect(options);
  if (!communicator) return std::fprintf(stderr, "%s\n", communicator.error().ToString().c_str()), 3;

  const bool differs = (*communicator)->rank() == 1;
  std::vector<float> data(1000, 1.0f);
  const auto all_reduce = [&](std::uint64_t count, rondo::DataType type, rondo::ReduceOp op) {
    return (*communicator)->AllReduce(data.data(), data.data(), count, type, op);
  };
  const auto broadcast = [&](rondo::Rank root) {
    return (*communicator)->Broadcast(data.data(), data.data(), 1000, rondo::DataType::kFloat32, root);
  };
  rondo::Status status;
  if (difference == "collective") {
    status = differs ? broadcast(1) : all_reduce(1000, rondo::DataType::kFloat32, rondo::ReduceOp::kSum);
  } else if (difference == "stuck") {  // everybody waits for somebody else's bytes, so none of them can tell
    status = differs ? broadcast(0) : all_reduce(1000, rondo::DataType::kFloat32, rondo::ReduceOp::kSum);
  } else if (difference == "count") {
    status = all_reduce(differs ? 999 : 1000, rondo::DataType::kFloat32, rondo::ReduceOp::kSum);
  } else if (difference == "type") {
    status = all_reduce(1000, differs ? rondo::DataType::kInt32 : rondo::DataType::kFloat32, rondo::ReduceOp::kSum);
  } else if (difference == "op") {
    status = all_reduce(1000, rondo::DataType::kFloat32, differs ? rondo::ReduceOp::kMax : rondo::ReduceOp::kSum);
  } else if (difference == "root") {
    // Nobody looks at bytes that it does not expect, until the next operation wants the lane they lie in.
    status = broadcast(differs ? 1 : 0);
    if (status) status = (*communicator)->Barrier();
  } else if (difference == "order") {
    for (int call = 0; call < 2 && status; ++call) {
      status = (call == 0) == differs ? (*communicator)->Barrier()
                                      : all_reduce(1000, rondo::DataType::kFloat32, rondo::ReduceOp::kSum);
    }
  } else {
    return std::fprintf(stderr, "usage: mismatch collective|count|type|op|root|order|stuck\n"), 2;
  }
  // A rank that only sends may be done before anybody looked at its bytes; then Close is where it learns.
  if (status) status = (*communicator)->Close();
  if (status) return std::fprintf(stderr, "rank %d noticed nothing\n", (*communicator)->rank()), 0;
  std::fprintf(stderr, "rank %d: %s\n", (*communicator)->rank(), status.error().ToString().c_str());
  return status.error().code() == rondo::ErrorCode::kMismatch ? 7 : 4;
}
