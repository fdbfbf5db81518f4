// What one rank of a story lives through: it meets the others, does what the plan says in ordinary blocking calls,
// closes; where the plan says so it goes on after a failure with whoever is left, while the faults last; and later,
// healed, meets whoever is left. It checks what can be checked on the spot: values, guard bytes, and that no call takes
// longer than its deadline. What its errors may be, and who went on with whom, is judged where the whole story is known
// (chaos.cc).
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "simulation/meeting.h"
#include "simulation/plan.h"
#include "simulation/store_node.h"

namespace rondo::simulation {

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
  TimePoint failed_at() const { return failed_at_; }   // of failure()
  const std::string& doing() const { return doing_; }  // now, or last

  // A generation that this rank was in after the first, in order.
  struct Generation {
    std::uint64_t number = 0;
    std::vector<Rank> members;  // as ranks of the network
  };
  const std::vector<Generation>& generations() const { return generations_; }
  bool went_on() const { return went_on_; }  // and did all that there was to do, in the last of them
  // Why it did not, once it tried.
  const std::optional<Error>& stopped_by() const { return stopped_by_; }
  // Whether memory that was given back has changed since; says so.
  void LookAtMemory();

 private:
  // Bytes between guards, given back once overwritten; no one may write here then.
  struct Kept {
    std::vector<std::int64_t> words;
    std::unique_ptr<plain::Buffers> buffers;  // of collectives, instead
    std::string of;
  };

  Result<std::unique_ptr<Communicator>> Meet(const StorePlace& place, std::uint64_t generation,
                                             const std::vector<Rank>& members, Duration timeout);
  Status Work();
  // With those who are left, until that is done or nothing helps.
  void GoOn();
  Status Do(const Step& step);
  Status Collective(const Step& step);
  Status Shift(const Step& step, Tag tag);
  Status Split(const Step& step);
  Status SumOf(Communicator& communicator, const std::vector<Rank>& members, std::uint64_t count, Duration timeout);
  Status Timed(Duration most, const std::function<Status()>& call);
  void Fail(const Error& error);
  // Ends the communicator for all, and looks whether later calls say why.
  void GiveUp();
  // Puts guards around, takes them into account, and overwrites what was lent.
  std::int64_t* Lend(std::size_t words, std::int64_t fill);
  void GiveBack(Kept& kept);
  TimePoint Now() const { return world_.network.clock()->Now(); }
  std::string Name() const;

  World& world_;
  const Rank rank_;
  std::optional<TimePoint> met_at_;
  bool through_ = false;
  std::optional<Error> failure_;
  TimePoint failed_at_{};
  std::string doing_;
  std::deque<Kept> memory_;       // all that was ever lent; outlives the communicators
  std::vector<Rank> failing_in_;  // members of the group whose error is on its way up
  std::unique_ptr<Store> store_;  // for as long as a rebuild may need it
  std::vector<Generation> generations_;
  bool went_on_ = false;
  std::optional<Error> stopped_by_;
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<Communicator> part_;  // of a split
};

}  // namespace rondo::simulation
