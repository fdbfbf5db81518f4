// Continuing after ranks were lost: the options and the report of Communicator::Rebuild, and the interface that
// implements it.
//
//   while (training) {
//     if (const Status step = TakeStep(*communicator); step) continue;
//     auto next = communicator->Rebuild({.min_ranks = 2});   // every surviving rank calls this
//     if (!next) return Fail(next.error());                  // kStale: the others have continued without this one
//     communicator = *std::move(next);                       // destroys the old one; rank and world size are new
//     RestoreFromTheRankThatIsFarthest(*communicator);
//   }
//
// docs/REBUILDING.md argues why two sets of ranks can never continue separately, and lists what a training loop must
// do.
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

// Options of a rebuild; equal on all ranks. The defaults keep the surviving ranks and admit no joiners (a shrink).
struct RebuildOptions {
  // If fewer ranks come by the deadline, the call fails with kRebuildFailed. If this is more than half of the world
  // size, a minority of ranks that is cut off cannot continue, even if only the minority reaches the store.
  int min_ranks = 1;
  // Admits processes that wait to join (ConnectOptions::join), in the order of their arrival, up to this world size.
  // None is admitted if this is 0, or not more than the number of surviving ranks.
  int max_ranks = 0;
  // How long the call waits for ranks that are not known to be dead, and for joiners up to max_ranks; at most half of
  // the timeout. Ranks notice a failure in their next call, so this must be longer than the longest time between two
  // calls of any rank.
  Duration settle = std::chrono::seconds(5);
  std::optional<Duration> timeout = {};  // timeout of the whole call; nullopt: the communicator's timeout
};

// How a communicator was formed.
struct RebuildReport {
  struct Gone {
    Rank old_rank = kNoRank;
    std::string host;
    std::uint64_t pid = 0;
    std::string why;  // reason if known: "found dead by rank 0: peer_lost: ...", "did not come within 5 s"
  };

  std::uint64_t generation = 0;  // of this communicator
  // The fields below describe a rebuilt communicator; for any other communicator they are 0 or empty.
  std::uint64_t old_generation = 0;  // the generation that ran before this one; the old ranks are its ranks
  std::vector<Rank> old_ranks = {};  // old rank of each rank; kNoRank: a joiner. Survivors keep their order
  std::vector<Gone> gone = {};       // ordered by old rank

  // The new rank of `old_rank`; kNoRank if it is lost.
  Rank NewRankOf(Rank old_rank) const;
  int joiners() const;
  // "generation 1 of 3 ranks; 0 was 0, 1 was 2, 2 is new; gone: rank 1 (host a, pid 17): found dead by rank 0".
  std::string ToString() const;
};

struct RebuildRequest {
  RebuildOptions options;
  TimePoint deadline;
  std::optional<Error> failure;  // first cause; nullopt: the communicator had not failed, and has been closed
  // returns the ranks found dead so far; any thread may call it until Rebuild returns
  std::function<std::vector<Rank>()> lost;
};

// Finds the surviving ranks for a communicator. A communicator uses no stores itself, so the code that creates it
// provides this object (CommunicatorOptions::rebuilder). Connect does so for ConnectOptions::rebuildable.
class Rebuilder {
 public:
  virtual ~Rebuilder() = default;
  // Makes the communicator of the next generation, which gets a rebuilder of its own. Errors: those of
  // Communicator::Rebuild. Called by one thread at a time; may be called again after an error, but not after a success.
  virtual Result<std::unique_ptr<Communicator>> Rebuild(const RebuildRequest& request) = 0;
};

}  // namespace rondo
