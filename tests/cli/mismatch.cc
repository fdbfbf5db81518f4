// A program with a bug in one rank: that rank makes a different call than the other ranks. Every rank must get an error
// that names the calls of both sides. Usage: rondo run -N 3 -- mismatch collective|count|type|op|root|order|stuck
// [RECORD_DIR]
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "collectives/connect.h"

namespace {

using rondo::DataType;
using rondo::ReduceOp;

rondo::Status CallWithBug(rondo::Communicator& communicator, const std::string& bug) {
  const bool differs = communicator.rank() == 1;
  std::vector<float> data(1000, 1.0f);
  const auto all_reduce = [&](std::uint64_t count, DataType type, ReduceOp op) {
    return communicator.AllReduce(data.data(), data.data(), count, type, op);
  };
  const auto sum = [&] { return all_reduce(1000, DataType::kFloat32, ReduceOp::kSum); };
  const auto broadcast = [&](rondo::Rank root) {
    return communicator.Broadcast(data.data(), data.data(), 1000, DataType::kFloat32, root);
  };

  if (bug == "collective") {
    RONDO_TRY(differs ? broadcast(1) : sum());
  } else if (bug == "stuck") {
    // Every rank waits for bytes of another rank, so only their progress reports reveal the mismatch.
    RONDO_TRY(differs ? broadcast(0) : sum());
  } else if (bug == "count") {
    RONDO_TRY(all_reduce(differs ? 999 : 1000, DataType::kFloat32, ReduceOp::kSum));
  } else if (bug == "type") {
    RONDO_TRY(all_reduce(1000, differs ? DataType::kInt32 : DataType::kFloat32, ReduceOp::kSum));
  } else if (bug == "op") {
    RONDO_TRY(all_reduce(1000, DataType::kFloat32, differs ? ReduceOp::kMax : ReduceOp::kSum));
  } else if (bug == "root") {
    RONDO_TRY(broadcast(differs ? 1 : 0));
  } else if (bug == "order") {
    RONDO_TRY(differs ? communicator.Barrier() : sum());
    RONDO_TRY(differs ? sum() : communicator.Barrier());
  }
  // A rank that only sends may finish before a peer has read its bytes. In that case Close returns the mismatch.
  return communicator.Close();
}

}  // namespace

int main(int argc, char** argv) {
  const std::set<std::string> bugs{"collective", "count", "type", "op", "root", "order", "stuck"};
  const std::string bug = argc > 1 ? argv[1] : "";
  if (bugs.count(bug) == 0) {
    return std::fprintf(stderr, "usage: mismatch collective|count|type|op|root|order|stuck [RECORD_DIR]\n"), 2;
  }
  rondo::CommunicatorOptions options;
  if (argc > 2) options.record_dir = argv[2];
  const auto communicator = rondo::Connect({.rendezvous = "env://",
                                            .timeout = std::chrono::seconds(bug == "stuck" ? 2 : 20),
                                            .environment = rondo::ProcessEnvironment,
                                            .communicator = options});
  if (!communicator) return std::fprintf(stderr, "%s\n", communicator.error().ToString().c_str()), 3;
  const rondo::Status status = CallWithBug(**communicator, bug);
  if (status) return std::fprintf(stderr, "rank %d noticed nothing\n", (*communicator)->rank()), 0;
  std::fprintf(stderr, "rank %d: %s\n", (*communicator)->rank(), status.error().ToString().c_str());
  return status.error().code() == rondo::ErrorCode::kMismatch ? 7 : 4;
}
