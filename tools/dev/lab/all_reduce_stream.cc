// all_reduce_stream: one rank of a job that runs all-reduces of one size back to back. It reports the wall time,
// and the least number of bytes that each rank must send. The ranks use the rendezvous of the environment (env://).
// Rank 0 prints
//   {"rounds": 12, "wall_s": 2.03, "bytes": 18874368}
// bytes: the sum over all rounds of 2 (n - 1) / n times the size of the vector, as in the bus bandwidth of nccl-tests;
// n: the number of ranks.
#include <fmt/core.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "collectives/connect.h"
#include "tools/dev/lab/stream_flags.h"

namespace rondo {
namespace {

constexpr int kFailed = 1, kWrongUsage = 2;

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

class Stream {
 public:
  Stream(Communicator& communicator, const StreamFlags& flags)
      : communicator_(communicator), flags_(flags), input_(flags.bytes / sizeof(float)), output_(input_.size()) {}

  Status Run() {
    RONDO_TRY(CheckResult());
    // During the warm-up the ranks agree on the duration of each batch after it has ended. Each agreement takes time,
    // so the batches grow. The final batch shows how long a round takes. After the warm-up the ranks run the measured
    // rounds without agreements between them.
    std::uint64_t batch = 1;
    double batch_s = 0, warm_s = 0;
    while (warm_s < flags_.warm_seconds) {
      if (batch_s > 0 && batch_s < flags_.warm_seconds / 4) batch *= 2;
      RONDO_ASSIGN(batch_s, Time(batch));
      warm_s += batch_s;
    }
    const auto rounds = batch_s > 0 ? std::ceil(flags_.seconds * static_cast<double>(batch) / batch_s) : 1;

    RONDO_ASSIGN(const double wall_s, Time(static_cast<std::uint64_t>(rounds)));
    if (communicator_.rank() != 0) return {};
    const double ranks = communicator_.world_size();
    const double of_round = 2 * (ranks - 1) / ranks * static_cast<double>(input_.size() * sizeof(float));
    fmt::print("{{\"rounds\": {:.0f}, \"wall_s\": {:.6f}, \"bytes\": {:.0f}}}\n", rounds, wall_s, rounds * of_round);
    return {};
  }

 private:
  Status Round() {
    return communicator_.AllReduce(input_.data(), output_.data(), input_.size(), DataType::kFloat32, ReduceOp::kSum);
  }

  // The time that the slowest rank takes for this number of rounds.
  Result<double> Time(std::uint64_t rounds) {
    const double start = Now();
    for (std::uint64_t round = 0; round < rounds; ++round) RONDO_TRY(Round());
    return Largest(Now() - start);
  }

  // Checks one result, because the speed of wrong results is meaningless.
  Status CheckResult() {
    const int ranks = communicator_.world_size();
    const int sum_of_ranks = ranks * (ranks - 1) / 2;
    for (std::size_t i = 0; i < input_.size(); ++i)
      input_[i] = static_cast<float>(i % 1000) + static_cast<float>(communicator_.rank());
    RONDO_TRY(Round());
    for (std::size_t i = 0; i < output_.size(); ++i) {
      const float expected =
          static_cast<float>(ranks) * static_cast<float>(i % 1000) + static_cast<float>(sum_of_ranks);
      if (output_[i] != expected)
        return Fail(ErrorCode::kInternal, "element {} of the sum is {}, not {}", i, output_[i], expected);
    }
    return {};
  }

  Result<double> Largest(double value) {
    RONDO_TRY(communicator_.AllReduce(&value, &value, 1, DataType::kFloat64, ReduceOp::kMax));
    return value;
  }

  Communicator& communicator_;
  const StreamFlags& flags_;
  std::vector<float> input_, output_;
};

int Main(int argc, char** argv) {
  CLI::App app("One rank of back-to-back all-reduces; rank 0 prints bytes over wall time as JSON.",
               "all_reduce_stream");
  StreamFlags flags;
  flags.AddTo(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWrongUsage;
  }
  const auto complain = [](const Error& error) {
    fmt::print(stderr, "all_reduce_stream: {}\n", error.ToString());
    return kFailed;
  };
  const auto communicator = Connect({.rendezvous = "env://", .environment = ProcessEnvironment});
  if (!communicator) return complain(communicator.error());
  if (const Status run = Stream(**communicator, flags).Run(); !run) return complain(run.error());
  if (const Status closed = (*communicator)->Close(); !closed) return complain(closed.error());
  return 0;
}

}  // namespace
}  // namespace rondo

int main(int argc, char** argv) { return rondo::Main(argc, argv); }
