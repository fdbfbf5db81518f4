// Sums whose every element shows which ranks contributed and which sum it is. The memory has guards around it.
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
  // Elements of the largest sum. Sizes range from one slot of a shared segment, or one frame, to many.
  static constexpr std::size_t kMostElements = 400'000;

  CheckedSums(std::uint64_t seed, Duration deadline);

  // Gives each rank its mark, a power of two that it contributes to sums and keeps through all generations. So a sum
  // shows its contributors.
  void Begin(const Communicator& communicator);
  // Continues with a rebuilt communicator: its ranks keep the marks that they had in the one before. Joiners get new
  // marks.
  void GoOn(const Communicator& communicator);

  // Takes a sum of `elements` elements, or of a number that the seed determines; the number is equal on all ranks.
  // Returns the communicator's error. If a value is wrong, or memory next to the values was written, the rank reports
  // "wrong" and its process ends at once.
  Status Take(Communicator& communicator, std::optional<std::size_t> elements = {}, ReduceOp op = ReduceOp::kSum);
  std::uint64_t taken() const { return taken_; }

 private:
  void Restart(std::uint64_t generation);

  const std::uint64_t seed_;
  const Duration deadline_;
  std::vector<std::int64_t> memory_;
  std::vector<std::int64_t> marks_;  // indexed by rank
  std::int64_t all_ = 0;
  Random random_;
  std::uint64_t taken_ = 0;
};

}  // namespace rondo::processes
