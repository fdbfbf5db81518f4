// A rank that computes sums until it must stop, and reports the number of sums and the connections to its port.
// tests/faults/processes/foreign_clients starts four such ranks under `rondo run`, and sends foreign clients to their
// ports. Each line of output begins with the time in nanoseconds, by the monotonic clock that all processes of a host
// share:
//
//   NS pid PID
//   NS sums N                      printed by rank 0 at intervals: N sums were correct so far
//   NS idle N COUNTERS             no sum runs, because the script has made the file FOLDER/idle
//   NS ended N COUNTERS            the script has made FOLDER/over, and the communicator is closed
//   NS wrong TEXT                  a wrong value, a write next to the values, or any error
//
// COUNTERS is a text such as "accepted 7 established 3".
//
// The exit code is 0 after "ended", otherwise 1.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "collectives/communicator.h"
#include "collectives/connect.h"
#include "transport/tcp/tcp.h"

namespace rondo {
namespace {

constexpr std::size_t kGuardElements = 8;
constexpr std::int64_t kGuard = 0x5a5a5a5a5a5a5a5a;
constexpr std::uint64_t kLookEvery = 16;  // number of sums between two checks of the folder
constexpr auto kReportEvery = std::chrono::milliseconds(50);
constexpr auto kIdleNap = std::chrono::milliseconds(20);
enum Order : std::int64_t { kGoOn = 0, kIdle = 1, kEnd = 2 };  // what rank 0 has found in the folder

struct Flags {
  std::filesystem::path folder;
  std::size_t elements = 2048;
};

template <typename... Args>
void Say(fmt::format_string<Args...> text, Args&&... args) {
  const auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(SteadyClock().Now().time_since_epoch());
  fmt::print("{} {}\n", now.count(), fmt::format(text, std::forward<Args>(args)...));
  std::fflush(stdout);
}

std::string Words(const TcpCounters& counters) {
  return fmt::format(
      "accepted {} established {} unknown {} refused {} auth_failed {} evicted {} retry_requested {} abandoned {} held "
      "{} "
      "accept_errors {}",
      counters.accepted.load(), counters.established.load(), counters.unknown.load(), counters.refused.load(),
      counters.auth_failed.load(), counters.evicted.load(), counters.retry_requested.load(), counters.abandoned.load(),
      counters.held.load(), counters.accept_errors.load());
}

// Sums to which each rank contributes elements that depend on the rank, the element's index, and the number of the sum.
class Sums {
 public:
  explicit Sums(std::size_t elements) : elements_(elements), memory_(elements + 2 * kGuardElements, kGuard) {}

  std::uint64_t taken() const { return taken_; }

  Status TakeOne(Communicator& communicator, const OperationOptions& options = {}) {
    std::int64_t* const values = memory_.data() + kGuardElements;
    const std::int64_t round = static_cast<std::int64_t>(taken_ % 1'000);
    const std::int64_t world = communicator.world_size();
    for (std::size_t i = 0; i < elements_; ++i) values[i] = At(i) * (communicator.rank() + 1) + round;
    RONDO_TRY(communicator.AllReduce(values, values, elements_, DataType::kInt64, ReduceOp::kSum, options));
    for (std::size_t i = 0; i < elements_; ++i) {
      const std::int64_t right = At(i) * world * (world + 1) / 2 + round * world;
      if (values[i] != right)
        return Fail(ErrorCode::kCorrupt, "element {} of sum {} is {}, not {}", i, taken_, values[i], right);
    }
    const auto touched = [](std::int64_t element) { return element != kGuard; };
    if (std::any_of(memory_.data(), values, touched) || std::any_of(values + elements_, &*memory_.end(), touched))
      return Fail(ErrorCode::kCorrupt, "memory beside the elements of sum {} was written", taken_);
    ++taken_;
    return {};
  }

 private:
  static std::int64_t At(std::size_t i) { return static_cast<std::int64_t>(i % 251) + 1; }

  const std::size_t elements_;
  std::vector<std::int64_t> memory_;
  std::uint64_t taken_ = 0;
};

Order Look(const Flags& flags) {
  if (std::filesystem::exists(flags.folder / "over")) return kEnd;
  return std::filesystem::exists(flags.folder / "idle") ? kIdle : kGoOn;
}

Status Work(Communicator& communicator, const Flags& flags, const TcpCounters& counters) {
  Sums sums(flags.elements);
  // Connects every pair of ranks, so that a repeated hello finds an existing connection.
  RONDO_TRY(sums.TakeOne(communicator, {.algorithm = Algorithm::kDirect}));
  SteadyClock clock;
  for (TimePoint reported_at = clock.Now();;) {
    RONDO_TRY(sums.TakeOne(communicator));
    if (communicator.rank() == 0 && clock.Now() - reported_at >= kReportEvery) {
      reported_at = clock.Now();
      Say("sums {}", sums.taken());
    }
    if (sums.taken() % kLookEvery != 0) continue;
    std::int64_t order = communicator.rank() == 0 ? Look(flags) : kGoOn;
    RONDO_TRY(communicator.Broadcast(&order, &order, 1, DataType::kInt64, 0));
    if (order == kEnd) break;
    if (order != kIdle) continue;
    Say("idle {} {}", sums.taken(), Words(counters));
    while (Look(flags) == kIdle) std::this_thread::sleep_for(kIdleNap);
  }
  RONDO_TRY(communicator.Close());
  Say("ended {} {}", sums.taken(), Words(counters));
  return {};
}

int Main(const Flags& flags) {
  Say("pid {}", getpid());
  const auto counters = std::make_shared<TcpCounters>();
  ConnectOptions options;
  options.rendezvous = "env://";
  options.path = Path::kTcp;
  options.environment = ProcessEnvironment;
  options.addresses = {"127.0.0.1"};
  options.tcp_counters = counters;
  options.rebuildable = true;  // so that each rank stays a client of the store
  const auto communicator = Connect(options);
  const Status done = communicator ? Work(**communicator, flags, *counters) : Fail(communicator.error());
  if (!done) Say("wrong {}", done.error().ToString());
  return done ? 0 : 1;
}

}  // namespace
}  // namespace rondo

int main(int argc, char** argv) {
  rondo::Flags flags;
  CLI::App app("A rank that sums until it is reported_at to stop; for tests/faults/processes/foreign_clients.");
  app.add_option("--folder", flags.folder, "Where the files idle and over will be")->required();
  app.add_option("--elements", flags.elements, "Of 8 bytes, in each sum");
  CLI11_PARSE(app, argc, argv);
  return rondo::Main(flags);
}
