// Races: two steps of a rank must not touch the same bytes at the same time, unless both only read.
//
// The proof considers a single byte. No step moves bytes from one chunk to another, so each chunk is checked by itself.
// A step reaches a byte only when two conditions hold. First, every step on which it depends and which touches this
// byte has passed the byte; the same two conditions hold for that step. Second, the previous step in the same direction
// of the same lane is completely done. A send that has passed a byte may still read it; only a write-after-read
// dependency waits for the release.
#include <algorithm>

#include "collectives/schedule/verify_parts.h"

namespace rondo::verify {
namespace {

// The steps of one rank on one chunk. Says which steps are done with a byte when another step reaches that byte.
class ChunkOrder {
 public:
  void Compute(const std::vector<Step>& steps, const std::vector<std::uint32_t>& on_chunk) {
    words_ = (on_chunk.size() + 63) / 64;
    over_.assign(on_chunk.size() * words_, 0);
    for (std::size_t later = 0; later < on_chunk.size(); ++later) {
      const Step& step = steps[on_chunk[later]];
      for (const Dependency& dependency : step.dependencies) {
        const auto found = std::lower_bound(on_chunk.begin(), on_chunk.end(), dependency.step);
        if (found == on_chunk.end() || *found != dependency.step) continue;  // the other step does not touch this chunk
        const auto earlier = static_cast<std::size_t>(found - on_chunk.begin());
        Follow(later, earlier, dependency.kind == DependencyKind::kWriteAfterRead || !Sends(steps[dependency.step]));
      }
      if (IsLocal(step.kind)) continue;
      for (std::size_t earlier = 0; earlier < later; ++earlier) {
        const Step& other = steps[on_chunk[earlier]];
        const bool same_direction = !IsLocal(other.kind) && Sends(other) == Sends(step);
        if (same_direction && other.peer == step.peer) Follow(later, earlier, !Sends(other));
      }
    }
  }

  bool IsOver(std::size_t earlier, std::size_t later) const {
    return (over_[later * words_ + earlier / 64] >> (earlier % 64) & 1) != 0;
  }

 private:
  void Follow(std::size_t later, std::size_t earlier, bool over) {
    for (std::size_t w = 0; w < words_; ++w) over_[later * words_ + w] |= over_[earlier * words_ + w];
    if (over) over_[later * words_ + earlier / 64] |= std::uint64_t{1} << (earlier % 64);
  }

  std::size_t words_ = 0;
  std::vector<std::uint64_t> over_;  // for each step: one bit per earlier step (IsOver)
};

constexpr BufferId kBuffers[] = {BufferId::kInput, BufferId::kOutput, BufferId::kScratch};

}  // namespace

Status CheckRaces(const Schedule& schedule, Rank rank, ChunkRange window) {
  const std::vector<Step>& steps = schedule.ranks[static_cast<std::size_t>(rank)].steps;
  std::vector<std::vector<std::uint32_t>> by_chunk(window.count);
  for (std::uint32_t s = 0; s < steps.size(); ++s) {
    for (std::uint32_t c = steps[s].chunks.first; c < steps[s].chunks.end(); ++c)
      by_chunk[c - window.first].push_back(s);
  }
  ChunkOrder order;
  for (std::uint32_t c = 0; c < window.count; ++c) {
    const std::vector<std::uint32_t>& on_chunk = by_chunk[c];
    order.Compute(steps, on_chunk);
    for (std::size_t later = 1; later < on_chunk.size(); ++later) {
      for (std::size_t earlier = 0; earlier < later; ++earlier) {
        if (order.IsOver(earlier, later)) continue;
        const Step& first = steps[on_chunk[earlier]];
        const Step& second = steps[on_chunk[later]];
        for (const BufferId buffer : kBuffers) {
          const bool first_writes = Writes(first, buffer);
          const bool second_writes = Writes(second, buffer);
          const bool race =
              (first_writes && (second_writes || Reads(second, buffer))) || (second_writes && Reads(first, buffer));
          if (!race) continue;
          return CounterExample("{} may {} chunk {} while {} still {} it: nothing orders the two",
                                Describe(schedule, {rank, on_chunk[later]}), second_writes ? "overwrite" : "read",
                                c + window.first, Describe(schedule, {rank, on_chunk[earlier]}),
                                first_writes ? "writes" : "reads");
        }
      }
    }
  }
  return {};
}

}  // namespace rondo::verify
