// Sums whose every element says who was in it and which sum it is, with guards around the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "collectives/communicator.h"

namespace rondo::processes {

class CheckedSums {
 public:
  // From what fits into one window of a shared segment or one frame to what goes through many.
  static constexpr std::size_t kMostElements = 400'000;

  CheckedSums(std::uint64_t seed, Duration deadline);

  // Each rank brings a power of two, its mark, which it keeps through all generations: a sum says who was in it.
  void Begin(const Communicator& communicator);
  // The ranks of a rebuilt communicator, with the marks that they had in the one before. Newcomers get marks beyond.
  void GoOn(const Communicator& communicator);

  // Of as many elements, or as many as the seed says, equal on all ranks. The error is the communicator's. Where what
  // came is wrong, or memory beside it was written, the rank says "wrong" and ends at once.
  Status Take(Communicator& communicator, std::optional<std::size_t> elements = {}, ReduceOp op = ReduceOp::kSum);
  std::uint64_t taken() const { return taken_; }

 private:
  void Restart(std::uint64_t generation);

  const std::uint64_t seed_;
  const Duration deadline_;
  std::vector<std::int64_t> memory_;
  std::vector<std::int64_t> marks_;  // by rank
  std::int64_t all_ = 0;
  Random random_;
  std::uint64_t taken_ = 0;
};

}  // namespace rondo::processes
