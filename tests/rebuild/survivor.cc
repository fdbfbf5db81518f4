// A rank that computes sums until a failure, continues with the surviving ranks, and logs events with their times.
// tests/rebuild/run starts several such ranks, and kills or stops some of them. Each line begins with the time in
// nanoseconds, by the monotonic clock that all processes of a host share:
//
//   NS pid PID                     before the rendezvous
//   NS runs RANK                   --runs-after sums among all ranks were correct
//   NS failed CODE CULPRIT TEXT    a sum or Close failed; TEXT is the error
//   NS rebuilt GENERATION RANK WORLD_SIZE REPORT
//   NS left CODE TEXT              the rebuild failed
//   NS after CODE TEXT             after a failed rebuild: the error of one more sum on the old communicator
//   NS ended SUMS                  SUMS sums of the new generation were correct, and its communicator was closed
//   NS wrong TEXT                  a value is wrong, or memory outside of the result was written
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
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "base/result.h"
#include "collectives/communicator.h"
#include "collectives/connect.h"

namespace rondo {
namespace {

using Seconds = std::chrono::duration<double>;

// Sizes of sums. Some fit into one slot of a shared segment or one frame, and some need many. Large sums take most of
// the time, so most deaths happen during a large sum.
constexpr std::array<std::size_t, 5> kElements{1, 100, 5'000, 60'000, 400'000};
constexpr std::size_t kGuardElements = 512;
constexpr std::int64_t kGuard = 0x5a5a5a5a5a5a5a5a;
constexpr std::uint64_t kLookForEndEvery = 16;  // number of sums between two checks of whether the job is over

struct Flags {
  Path path = Path::kAuto;
  double timeout_s = 20;
  double deadline_s = 5;
  double settle_s = 5;
  std::uint64_t seed = 1;
  std::uint64_t sums = 50;
  std::uint64_t runs_after = 1;  // number of sums
  std::string until;
};

template <typename... Args>
void Say(fmt::format_string<Args...> text, Args&&... args) {
  const auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(SteadyClock().Now().time_since_epoch());
  fmt::print("{} {}\n", now.count(), fmt::format(text, std::forward<Args>(args)...));
  std::fflush(stdout);
}

Duration DurationOf(double seconds) { return std::chrono::duration_cast<Duration>(Seconds(seconds)); }

Error Wrong(std::string what) { return Error(ErrorCode::kCorrupt, std::move(what)); }

// Sums in which every element shows which ranks took part, and the number of the sum.
class Sums {
 public:
  explicit Sums(const Flags& flags) : flags_(flags) { memory_.resize(kElements.back() + 2 * kGuardElements); }

  // `marks`: each rank's contribution, in the order of ranks. It is a power of two that the rank keeps through all
  // generations.
  void Begin(std::vector<std::int64_t> marks, std::uint64_t generation) {
    marks_ = std::move(marks);
    all_ = 0;
    for (const std::int64_t mark : marks_) all_ += mark;
    random_.emplace(flags_.seed * 1'000 + generation);
    taken_ = 0;
  }

  const std::vector<std::int64_t>& marks() const { return marks_; }
  std::uint64_t taken() const { return taken_; }

  // kCorrupt: the result is wrong. Any other error is the communicator's error.
  Status TakeOne(Communicator& communicator) {
    const std::size_t elements = kElements[random_->Below(kElements.size())];
    const auto round = static_cast<std::int64_t>(taken_ % 1'000);
    std::int64_t* const values = memory_.data() + kGuardElements;
    std::fill_n(memory_.data(), kGuardElements, kGuard);
    std::fill_n(values + elements, kGuardElements, kGuard);
    const std::int64_t mark = marks_[static_cast<std::size_t>(communicator.rank())];
    for (std::size_t i = 0; i < elements; ++i) values[i] = mark * At(i) + round;
    RONDO_TRY(communicator.AllReduce(values, values, elements, DataType::kInt64, ReduceOp::kSum,
                                     {.timeout = DurationOf(flags_.deadline_s)}));
    const std::int64_t rounds = round * static_cast<std::int64_t>(marks_.size());
    for (std::size_t i = 0; i < elements; ++i)
      if (values[i] != all_ * At(i) + rounds)
        return Fail(Wrong(fmt::format("element {} of {} in sum {} is {}, not {}", i, elements, taken_, values[i],
                                      all_ * At(i) + rounds)));
    RONDO_TRY(CheckGuards(elements));
    ++taken_;
    return {};
  }

 private:
  static std::int64_t At(std::size_t i) { return static_cast<std::int64_t>(i % 251) + 1; }

  Status CheckGuards(std::size_t elements) const {
    const std::int64_t* const before = memory_.data();
    const std::int64_t* const after = before + kGuardElements + elements;
    const auto untouched = [](std::int64_t element) { return element == kGuard; };
    if (std::all_of(before, before + kGuardElements, untouched) &&
        std::all_of(after, after + kGuardElements, untouched))
      return {};
    return Fail(Wrong(fmt::format("memory beside the {} elements of sum {} was written", elements, taken_)));
  }

  const Flags& flags_;
  std::vector<std::int64_t> memory_;
  std::vector<std::int64_t> marks_;
  std::int64_t all_ = 0;
  std::optional<Random> random_;
  std::uint64_t taken_ = 0;
};

std::vector<std::int64_t> FirstMarks(int ranks) {
  std::vector<std::int64_t> marks;
  for (int rank = 0; rank < ranks; ++rank) marks.push_back(std::int64_t{1} << rank);
  return marks;
}

// Whether all ranks stop after this sum. Rank 0 checks whether the file exists, and an all-reduce distributes the
// result.
Result<bool> IsOver(Communicator& communicator, const Sums& sums, const Flags& flags) {
  if (sums.taken() < flags.sums || sums.taken() % kLookForEndEvery != 0) return false;
  std::int64_t over = flags.until.empty() || (communicator.rank() == 0 && std::filesystem::exists(flags.until)) ? 1 : 0;
  RONDO_TRY(communicator.AllReduce(&over, &over, 1, DataType::kInt64, ReduceOp::kMax,
                                   {.timeout = DurationOf(flags.deadline_s)}));
  return over != 0;
}

// Computes sums until the job is over. The first generation never ends in this way, because the test waits for its
// failure.
Status SumUntilOver(Communicator& communicator, Sums& sums, const Flags& flags) {
  for (bool over = false; !over;) {
    RONDO_TRY(sums.TakeOne(communicator));
    if (communicator.report().old_ranks.empty()) {
      if (sums.taken() == flags.runs_after) Say("runs {}", communicator.rank());
      continue;
    }
    RONDO_ASSIGN(over, IsOver(communicator, sums, flags));
  }
  return communicator.Close();
}

// Returns the communicator of the next generation, ready for sums; null: this rank is not in a next generation.
std::unique_ptr<Communicator> GoOn(Communicator& communicator, Sums& sums, const Flags& flags) {
  auto next = communicator.Rebuild({.settle = DurationOf(flags.settle_s)});
  if (!next) {
    Say("left {} {}", Name(next.error().code()), next.error().ToString());
    const Status again = sums.TakeOne(communicator);
    Say("after {}", again ? "ok it could" : fmt::format("{} {}", Name(again.error().code()), again.error().ToString()));
    return nullptr;
  }
  const RebuildReport& report = (*next)->report();
  std::vector<std::int64_t> marks;
  for (const Rank old_rank : report.old_ranks) marks.push_back(sums.marks()[static_cast<std::size_t>(old_rank)]);
  Say("rebuilt {} {} {} {}", report.generation, (*next)->rank(), (*next)->world_size(), report.ToString());
  sums.Begin(std::move(marks), report.generation);
  return *std::move(next);
}

int Main(const Flags& flags) {
  Say("pid {}", getpid());
  ConnectOptions options;
  options.rendezvous = "env://";
  options.path = flags.path;
  options.timeout = DurationOf(flags.timeout_s);
  options.environment = ProcessEnvironment;
  options.addresses = {"127.0.0.1"};
  options.rebuildable = true;
  auto connected = Connect(options);
  if (!connected) {
    Say("wrong: not connected: {}", connected.error().ToString());
    return 1;
  }
  std::unique_ptr<Communicator> communicator = *std::move(connected);
  Sums sums(flags);
  sums.Begin(FirstMarks(communicator->world_size()), 0);
  for (;;) {
    const Status status = SumUntilOver(*communicator, sums, flags);
    if (status) break;
    const Error& error = status.error();
    if (error.code() == ErrorCode::kCorrupt) {
      Say("wrong {}", error.ToString());
      return 1;
    }
    Say("failed {} {} {}", Name(error.code()), error.culprit(), error.ToString());
    communicator = GoOn(*communicator, sums, flags);
    if (communicator == nullptr) return 1;
  }
  Say("ended {}", sums.taken());
  return 0;
}

}  // namespace
}  // namespace rondo

int main(int argc, char** argv) {
  rondo::Flags flags;
  std::string transport = "auto";
  CLI::App app("A rank that sums until it fails and continues with the remaining ranks; for tests/rebuild/run.");
  app.add_option("--transport", transport)->check(CLI::IsMember({"auto", "tcp", "shm"}));
  app.add_option("--timeout", flags.timeout_s, "Of the rendezvous and of a rebuild, in seconds");
  app.add_option("--deadline", flags.deadline_s, "Of each sum, in seconds");
  app.add_option("--settle", flags.settle_s, "RebuildOptions::settle, in seconds");
  app.add_option("--seed", flags.seed, "Of the sums' lengths");
  app.add_option("--sums", flags.sums, "How many are taken at least in the new generation");
  app.add_option("--runs-after", flags.runs_after, "After how many sums of the first generation it says that it runs");
  app.add_option("--until", flags.until, "And until this file is there");
  CLI11_PARSE(app, argc, argv);
  if (transport == "tcp") flags.path = rondo::Path::kTcp;
  if (transport == "shm") flags.path = rondo::Path::kShm;
  return rondo::Main(flags);
}
