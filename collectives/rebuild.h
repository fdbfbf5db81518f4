// Going on after ranks were lost: what Communicator::Rebuild is asked, what it tells, and the seam behind it.
//
//   while (training) {
//     if (const Status step = TakeStep(*communicator); step) continue;
//     auto next = communicator->Rebuild({.min_ranks = 2});   // every rank that is left
//     if (!next) return Fail(next.error());                  // kStale: the others have gone on without this one
//     communicator = *std::move(next);                       // the old one goes; ranks and world size are new
//     RestoreFromTheRankThatIsFarthest(*communicator);
//   }
//
// docs/REBUILDING.md has the argument why no two sets of ranks can go on apart, and what a training loop must do.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/ids.h"
#include "base/result.h"

namespace rondo {

class Communicator;

// Equal on all ranks. The defaults take those who are left and nobody else (a shrink).
struct RebuildOptions {
  // Fewer give kRebuildFailed, at the deadline. More than half of the world, and a part that was cut off cannot go on
  // even where it reaches the store and the others do not.
  int min_ranks = 1;
  // Room for processes that wait to join (ConnectOptions::join), in the order of their arrival, up to this world size.
  // 0, or no more than are left: nobody is admitted.
  int max_ranks = 0;
  // How long is waited for ranks that are not known to be dead, and for newcomers up to max_ranks; at most half of the
  // timeout. Ranks come when they meet the failure, in their next call: longer than a rank is ever away from Rondo.
  Duration settle = std::chrono::seconds(5);
  std::optional<Duration> timeout = {};  // of the whole call; nullopt: the communicator's
};

// How a communicator came about.
struct RebuildReport {
  struct Gone {
    Rank old_rank = kNoRank;
    std::string host;
    std::uint64_t pid = 0;
    std::string why;  // as far as it is known: "found dead by rank 0: peer_lost: ...", "did not come within 5 s"
  };

  std::uint64_t generation = 0;  // of this communicator
  // The rest is about a rebuilt one; else all of it is 0 or empty.
  std::uint64_t old_generation = 0;  // whose ranks the old ones are: the last that ran
  std::vector<Rank> old_ranks = {};  // by rank: which it was; kNoRank: a newcomer. Those who stayed keep their order
  std::vector<Gone> gone = {};       // by old rank

  // The rank that an old one has now; kNoRank if it is gone.
  Rank NewRankOf(Rank old_rank) const;
  int newcomers() const;
  // "generation 1 of 3 ranks; 0 was 0, 1 was 2, 2 is new; gone: rank 1 (host a, pid 17): found dead by rank 0".
  std::string ToString() const;
};

struct RebuildRequest {
  RebuildOptions options;
  TimePoint deadline;
  std::optional<Error> failure;             // why; nullopt: the communicator was in order, and has been closed
  std::function<std::vector<Rank>()> lost;  // ranks that were found dead so far. Any thread, until the call returns
};

// How a communicator finds those who are left: it knows no stores, so whoever made it hands this in
// (CommunicatorOptions::rebuilder). Connect does, for ConnectOptions::rebuildable.
class Rebuilder {
 public:
  virtual ~Rebuilder() = default;
  // The next generation's communicator, with a rebuilder of its own. The errors of Communicator::Rebuild. Called by one
  // thread at a time; again after an error, never after a success.
  virtual Result<std::unique_ptr<Communicator>> Rebuild(const RebuildRequest& request) = 0;
};

}  // namespace rondo
