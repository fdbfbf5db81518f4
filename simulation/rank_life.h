// What one rank of a story lives through: it meets the others, does what the plan says in ordinary blocking calls,
// closes; and later, healed, meets whoever is left. It checks what can be checked on the spot: values, guard bytes, and
// that no call takes longer than its deadline. What its errors may be is judged where the whole story is known
// (chaos.cc).
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "simulation/cluster.h"
#include "simulation/plan.h"
#include "simulation/store_node.h"

namespace rondo::simulation {

// What all lives of a story share. Outlives them.
struct World {
  const Plan& plan;
  Negative negative = Negative::kNone;
  SimNetwork& network;
  Cluster& cluster;
  std::function<void(const std::string&)> violate;
  std::function<void(const std::string&)> trace;
};

class RankLife {
 public:
  RankLife(World& world, Rank rank) : world_(world), rank_(rank) {}

  // Bodies of its process.
  void First(const StorePlace& place);
  void Again(const StorePlace& place, const std::vector<Rank>& survivors);
  // On its death.
  void Die();

  bool met() const { return met_at_.has_value(); }
  TimePoint met_at() const { return *met_at_; }
  bool through() const { return through_; }  // did all that the present body had to do
  // Why it is not; the culprit as a rank of the network.
  const std::optional<Error>& failure() const { return failure_; }
  const std::string& doing() const { return doing_; }  // now, or last
  // Whether memory that was given back has changed since; says so.
  void LookAtMemory();

 private:
  // Bytes between guards, given back once poisoned; nobody may write here then.
  struct Kept {
    std::vector<std::int64_t> words;
    std::unique_ptr<plain::Buffers> buffers;  // of collectives, instead
    std::string of;
  };

  Result<std::unique_ptr<Communicator>> Meet(const StorePlace& place, std::uint64_t generation,
                                             const std::vector<Rank>& members, Duration timeout);
  Status Do(const Step& step);
  Status Collective(const Step& step);
  Status Shift(const Step& step, Tag tag);
  Status Split(const Step& step);
  Status SumOf(Communicator& communicator, const std::vector<Rank>& members, std::uint64_t count, Duration timeout);
  Status Timed(Duration most, const std::function<Status()>& call);
  void Fail(const Error& error);
  // Puts guards around, takes them into account, and poisons what was lent.
  std::int64_t* Lend(std::size_t words, std::int64_t fill);
  void GiveBack(Kept& kept);
  TimePoint Now() const { return world_.network.clock()->Now(); }
  std::string Name() const;

  World& world_;
  const Rank rank_;
  std::optional<TimePoint> met_at_;
  bool through_ = false;
  std::optional<Error> failure_;
  std::string doing_;
  std::deque<Kept> memory_;       // all that was ever lent; outlives the communicators
  std::vector<Rank> failing_in_;  // members of the group whose error is on its way up
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<Communicator> part_;  // of a split
};

}  // namespace rondo::simulation
