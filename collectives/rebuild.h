// Continuing after ranks were lost: the options and the report of Communicator::Rebuild, and the interface that
// implements it.
//
//   while (training) {
//     if (const Status step = TakeStep(*communicator); step) continue;
//     auto next = communicator->Rebuild({.min_ranks = 2});   // every rank that is left calls this
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

// Equal on all ranks. The defaults keep the ranks that are left and admit no joiners (a shrink).
struct RebuildOptions {
  // Fewer ranks by the deadline give kRebuildFailed. With more than half of the world, a minority that is cut off
  // cannot continue even if it reaches the store and the others do not.
  int min_ranks = 1;
  // Admits processes that wait to join (ConnectOptions::join), in the order of their arrival, up to this world size. 0,
  // or no more than are left: none is admitted.
  int max_ranks = 0;
  // How long the call waits for ranks that are not known to be dead, and for joiners up to max_ranks; at most half of
  // the timeout. Ranks notice a failure in their next call, so this must be longer than any rank ever computes between
  // two calls.
  Duration settle = std::chrono::seconds(5);
  std::optional<Duration> timeout = {};  // of the whole call; nullopt: the communicator's
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
  // The other fields describe a rebuilt communicator; otherwise all of them are 0 or empty.
  std::uint64_t old_generation = 0;  // the last generation that ran; old ranks are those of it
  std::vector<Rank> old_ranks = {};  // old rank of each rank; kNoRank: a joiner. Survivors keep their order
  std::vector<Gone> gone = {};       // ordered by old rank

  // The new rank of an old one; kNoRank if it is lost.
  Rank NewRankOf(Rank old_rank) const;
  int newcomers() const;
  // "generation 1 of 3 ranks; 0 was 0, 1 was 2, 2 is new; gone: rank 1 (host a, pid 17): found dead by rank 0".
  std::string ToString() const;
};

struct RebuildRequest {
  RebuildOptions options;
  TimePoint deadline;
  std::optional<Error> failure;  // first cause; nullopt: the communicator had not failed, and has been closed
  std::function<std::vector<Rank>()> lost;  // ranks found dead so far. Any thread, until Rebuild returns
};

// Finds the ranks that are left, for a communicator. A communicator uses no stores itself, so its maker provides this
// (CommunicatorOptions::rebuilder). Connect does so for ConnectOptions::rebuildable.
class Rebuilder {
 public:
  virtual ~Rebuilder() = default;
  // Makes the communicator of the next generation, with a rebuilder of its own. Errors: those of Communicator::Rebuild.
  // Called by one thread at a time; may be called again after an error, but not after a success.
  virtual Result<std::unique_ptr<Communicator>> Rebuild(const RebuildRequest& request) = 0;
};

}  // namespace rondo
