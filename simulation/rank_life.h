// What one rank does in a scenario. It connects to the others, executes the plan's steps with ordinary blocking calls,
// and closes. If the plan says so, it continues after a failure with the remaining ranks, before the faults are healed.
// After the faults are healed it connects to the remaining ranks again. It checks what it can check alone: values,
// guard bytes, and that no call takes longer than its deadline. chaos.cc, which knows the whole scenario, judges the
// rank's errors, and which ranks continued together.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "simulation/connect.h"
#include "simulation/plan.h"
#include "simulation/store_node.h"

namespace rondo::simulation {

class RankLife {
 public:
  RankLife(World& world, Rank rank) : world_(world), rank_(rank) {}

  // The code of the rank's process: First in the first generation, Again after all faults are healed.
  void First(const StorePlace& place);
  void Again(const StorePlace& place, const std::vector<Rank>& survivors);
  // Called when the rank is killed.
  void Die();

  bool connected() const { return connected_at_.has_value(); }
  TimePoint connected_at() const { return *connected_at_; }
  bool through() const { return through_; }  // whether the latest call of First or Again completed everything
  // The failure, if the latest call of First or Again did not complete everything. The culprit is a rank of the
  // network.
  const std::optional<Error>& failure() const { return failure_; }
  TimePoint failed_at() const { return failed_at_; }   // the time of failure()
  const std::string& doing() const { return doing_; }  // the current or latest step

  // A generation, other than the first, to which this rank belonged.
  struct Generation {
    std::uint64_t number = 0;
    std::vector<Rank> members;  // the members' ranks in the network
  };
  const std::vector<Generation>& generations() const { return generations_; }
  bool went_on() const { return went_on_; }  // whether the rank completed everything in the latest generation
  // Why this rank did not continue after a failure, if it tried to continue.
  const std::optional<Error>& stopped_by() const { return stopped_by_; }
  // Reports a violation if memory has changed after the call that used it returned.
  void LookAtMemory();

 private:
  // Memory of one call, between guards. It is overwritten when the call has returned, and must not change after that.
  struct Kept {
    std::vector<std::int64_t> words;
    std::unique_ptr<plain::Buffers> buffers;  // for collectives, instead of `words`
    std::string of;
  };

  Result<std::unique_ptr<Communicator>> Connect(const StorePlace& place, std::uint64_t generation,
                                                const std::vector<Rank>& members, Duration timeout);
  Status Work();
  // Rebuilds and continues with the remaining ranks, until everything is done or a rebuild fails.
  void GoOn();
  Status Do(const Step& step);
  Status Collective(const Step& step);
  Status Shift(const Step& step, Tag tag);
  Status Split(const Step& step);
  Status SumOf(Communicator& communicator, const std::vector<Rank>& members, std::uint64_t count, Duration timeout);
  Status Timed(Duration most, const std::function<Status()>& call);
  void Fail(const Error& error);
  // Aborts the communicator for all ranks, and checks that later calls return the cause.
  void GiveUp();
  // Lend puts guards around memory. GiveBack checks the guards and overwrites the memory.
  std::int64_t* Lend(std::size_t words, std::int64_t fill);
  void GiveBack(Kept& kept);
  TimePoint Now() const { return world_.network.clock()->Now(); }
  std::string Name() const;

  World& world_;
  const Rank rank_;
  std::optional<TimePoint> connected_at_;
  bool through_ = false;
  std::optional<Error> failure_;
  TimePoint failed_at_{};
  std::string doing_;
  std::deque<Kept> memory_;       // all memory ever used; must outlive the communicators
  std::vector<Rank> failing_in_;  // members of the group whose error is being reported
  std::unique_ptr<Store> store_;  // kept while a rebuild may need it
  std::vector<Generation> generations_;
  bool went_on_ = false;
  std::optional<Error> stopped_by_;
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<Communicator> part_;  // a group made by Split
};

}  // namespace rondo::simulation
