#include "tests/faults/processes/checked_sums.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string>

#include "tests/faults/processes/saying.h"

namespace rondo::processes {
namespace {

constexpr std::array<std::size_t, 5> kElements{1, 100, 5'000, 60'000, CheckedSums::kMaxElements};
constexpr std::size_t kGuardElements = 512;
constexpr std::int64_t kGuard = 0x5a5a5a5a5a5a5a5a;

[[noreturn]] void EndAsWrong(const std::string& what) {
  Say("wrong", {{"text", what}});
  _exit(6);
}

std::int64_t At(std::size_t i) { return static_cast<std::int64_t>(i % 251) + 1; }

}  // namespace

CheckedSums::CheckedSums(std::uint64_t seed, Duration deadline) : seed_(seed), deadline_(deadline), random_(seed) {}

void CheckedSums::Begin(const Communicator& communicator) {
  marks_.clear();
  for (int rank = 0; rank < communicator.world_size(); ++rank) marks_.push_back(std::int64_t{1} << rank);
  Restart(communicator.report().generation);
}

void CheckedSums::GoOn(const Communicator& communicator) {
  std::vector<std::int64_t> marks;
  int joiners = 0;
  for (const Rank old_rank : communicator.report().old_ranks)
    marks.push_back(old_rank == kNoRank ? std::int64_t{1} << (20 + joiners++)
                                        : marks_[static_cast<std::size_t>(old_rank)]);
  marks_ = std::move(marks);
  Restart(communicator.report().generation);
}

void CheckedSums::Restart(std::uint64_t generation) {
  all_ = std::accumulate(marks_.begin(), marks_.end(), std::int64_t{0});
  random_ = Random(seed_ * 1'000 + generation);
  taken_ = 0;
}

Status CheckedSums::Take(Communicator& communicator, std::optional<std::size_t> wanted, ReduceOp op) {
  const std::size_t elements = wanted ? *wanted : kElements[random_.Below(kElements.size())];
  if (memory_.size() < elements + 2 * kGuardElements) memory_.resize(elements + 2 * kGuardElements);
  std::int64_t* const values = memory_.data() + kGuardElements;
  std::fill_n(memory_.data(), kGuardElements, kGuard);
  std::fill_n(values + elements, kGuardElements, kGuard);
  const std::int64_t mark = marks_[static_cast<std::size_t>(communicator.rank())];
  const auto round = static_cast<std::int64_t>(taken_ % 1'000);
  for (std::size_t i = 0; i < elements; ++i) values[i] = mark * At(i) + round;
  RONDO_TRY(communicator.AllReduce(values, values, elements, DataType::kInt64, op, {.timeout = deadline_}));
  const std::int64_t rounds = round * static_cast<std::int64_t>(marks_.size());
  for (std::size_t i = 0; i < elements; ++i)
    if (values[i] != all_ * At(i) + rounds)
      EndAsWrong(fmt::format("element {} of {} in sum {} is {}, not {}", i, elements, taken_, values[i],
                             all_ * At(i) + rounds));
  const auto untouched = [](std::int64_t element) { return element == kGuard; };
  if (!std::all_of(memory_.data(), values, untouched) ||
      !std::all_of(values + elements, values + elements + kGuardElements, untouched))
    EndAsWrong(fmt::format("memory beside the {} elements of sum {} was written", elements, taken_));
  ++taken_;
  return {};
}

}  // namespace rondo::processes
