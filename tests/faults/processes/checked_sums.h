// Sums in which every element shows which ranks contributed, and the number of the sum. Guards surround the memory.
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
  // The number of elements of the largest sum. The sizes range from sums that fit into one slot of a shared segment, or
  // one frame, to sums that need many.
  static constexpr std::size_t kMaxElements = 400'000;

  CheckedSums(std::uint64_t seed, Duration deadline);

  // Gives each rank a mark, which is a power of two. The rank contributes the mark to sums and keeps it through all
  // generations, so a sum shows its contributors.
  void Begin(const Communicator& communicator);
  // Continues with a rebuilt communicator. Its ranks keep the marks that they had in the previous communicator. Joiners
  // get new marks.
  void GoOn(const Communicator& communicator);

  // Takes a sum of `elements` elements. Without `elements`, the seed determines the number, which is equal on all
  // ranks. Returns the communicator's error. If a value is wrong, or memory next to the values was written, the rank
  // reports "wrong" and its process ends at once.
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
