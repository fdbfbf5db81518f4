#include "rendezvous/roster_agreement.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "rendezvous/membership.h"
#include "rendezvous/prefix_store.h"
#include "rendezvous/roster_records.h"

namespace rondo {
namespace {

using roster::Admission;
using roster::AdmissionKey;
using roster::Claim;
using roster::ClaimKey;
using roster::Decode;
using roster::DecodeAdmission;
using roster::DecodeClaim;
using roster::DecodeJoiner;
using roster::Encode;
using roster::Joiner;
using roster::JoinerKey;
using roster::kJoiners;
using roster::Prefix;
using roster::RosterKey;

constexpr std::size_t kListedAbsent = 16;
// The pause between two reads of the store. Reading repeatedly is necessary because a Wait does not notice joiners, the
// passing of time, or deaths that other ranks detected. The pause grows, so that a thousand waiting ranks do not keep
// the store busy.
constexpr Duration kFirstLookPause = std::chrono::milliseconds(50);
constexpr Duration kLongestLookPause = std::chrono::seconds(1);
// The count of joiners grows during the whole life of a job. So only the latest joiners are read, and the read fits
// into one batch.
constexpr std::uint64_t kJoinersLookedAt = 4096;

std::string Who(const RosterEntry& entry) { return fmt::format("host {}, pid {}", entry.host, entry.pid); }

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

// ---- the remaining ranks ----

class Agreement {
 public:
  Agreement(Store& store, const Clock& clock, const RosterOptions& options)
      : store_(store, Prefix(options.first_generation, options.job)),
        clock_(clock),
        options_(options),
        generation_(options.previous.generation + 1),
        began_(clock.Now()) {
    // The settle time is limited to half of the time until the deadline, because the rendezvous that follows needs the
    // other half.
    const Duration budget = std::max(options.deadline - began_, Duration::zero());
    settled_at_ = Later(began_, std::min(options.rules.settle, budget / 2));
  }

  Result<Roster> Agree() {
    RONDO_TRY(PutClaim());
    for (Duration pause = kFirstLookPause;; pause = std::min(2 * pause, kLongestLookPause)) {
      RONDO_TRY(Look());
      if (standing_) return Enter(*standing_);
      const TimePoint now = clock_.Now();
      if (IsTime(now)) return Propose();
      if (now >= options_.deadline) return tl::unexpected(TooFew());
      RONDO_TRY(AwaitNews(
          std::min({Later(now, pause), now < settled_at_ ? settled_at_ : TimePoint::max(), options_.deadline})));
      RONDO_TRY(ClaimAgainIfMoreAreLost());
    }
  }

 private:
  const std::vector<RosterEntry>& previous() const { return options_.previous.members; }
  const RosterEntry& self() const { return previous()[static_cast<std::size_t>(options_.rank)]; }

  Status PutClaim() {
    lost_ = Lost();
    const Claim claim{
        .instance = self().instance, .cause = options_.cause, .last_run = options_.previous.last_run, .lost = lost_};
    return store_.Set(ClaimKey(generation_, static_cast<std::size_t>(options_.rank)), Encode(claim), options_.deadline);
  }

  Status ClaimAgainIfMoreAreLost() { return Lost() == lost_ ? Status{} : PutClaim(); }

  // The processes that this process knows to be dead, by their ranks in the last roster. options_.lost gives their old
  // ranks. These are converted, because other processes may have old ranks of another generation.
  std::vector<Rank> Lost() const {
    std::vector<Rank> lost;
    const std::vector<Rank> old = options_.lost ? options_.lost() : std::vector<Rank>();
    for (std::size_t rank = 0; rank < previous().size(); ++rank)
      if (std::find(old.begin(), old.end(), previous()[rank].old_rank) != old.end())
        lost.push_back(static_cast<Rank>(rank));
    return lost;
  }

  // The last roster, adapted to the claims. If any claim says that its rank ran in this roster's generation, each
  // member's rank in this roster becomes its old rank.
  Roster Previous() const {
    Roster roster = options_.previous;
    const bool runs = std::any_of(claims_.begin(), claims_.end(),
                                  [&](const auto& claim) { return claim && claim->last_run == roster.generation; });
    if (!runs || roster.last_run == roster.generation) return roster;
    for (std::size_t rank = 0; rank < roster.members.size(); ++rank) {
      roster.members[rank].old_rank = static_cast<Rank>(rank);
      roster.members[rank].joiner = 0;
    }
    roster.last_run = roster.generation;
    roster.departed.clear();
    return roster;
  }

  // Reads claims_, waiting_ and standing_ from the store.
  Status Look() {
    std::vector<std::string> keys{RosterKey(generation_), kJoiners};
    for (std::size_t rank = 0; rank < previous().size(); ++rank) keys.push_back(ClaimKey(generation_, rank));
    RONDO_ASSIGN(auto values, store_.GetMany(keys, options_.deadline));
    if (values[0]) {
      RONDO_ASSIGN(standing_, Decode(*values[0], generation_, store_));
      return {};
    }
    claims_.assign(previous().size(), std::nullopt);
    for (std::size_t rank = 0; rank < previous().size(); ++rank) {
      if (!values[rank + 2]) continue;
      auto claim = DecodeClaim(*values[rank + 2]);
      // A claim of a different instance belongs to another roster, so it is ignored.
      if (claim && claim->instance == previous()[rank].instance) claims_[rank] = std::move(claim);
    }
    dead_.clear();
    for (const auto& claim : claims_)
      if (claim) dead_.insert(claim->lost.begin(), claim->lost.end());
    waiting_.clear();
    if (Room() <= 0 || !values[1]) return {};
    std::int64_t joiners = 0;  // parsed from the text that Store::Add wrote
    std::from_chars(values[1]->data(), values[1]->data() + values[1]->size(), joiners);
    return joiners > 0 ? LookAtJoiners(static_cast<std::uint64_t>(joiners)) : Status{};
  }

  Status LookAtJoiners(std::uint64_t count) {
    const std::uint64_t first = count > kJoinersLookedAt ? count - kJoinersLookedAt + 1 : 1;
    std::vector<std::string> keys;
    for (std::uint64_t number = first; number <= count; ++number) {
      keys.push_back(JoinerKey(number));
      keys.push_back(AdmissionKey(number));
    }
    RONDO_ASSIGN(auto values, store_.GetMany(keys, options_.deadline));
    for (std::uint64_t number = first; number <= count && static_cast<int>(waiting_.size()) < Room(); ++number) {
      const auto& asked = values[2 * (number - first)];
      const auto& answered = values[2 * (number - first) + 1];
      if (!asked || answered) continue;
      auto joiner = DecodeJoiner(number, *asked);
      const std::string differences = joiner ? ConfigDifferences(joiner->config, options_.config)
                                             : "a process with another version of Rondo wrote its record";
      if (differences.empty()) {
        waiting_.push_back(std::move(*joiner));
      } else {
        RONDO_TRY(store_.CompareSet(AdmissionKey(number), std::nullopt,
                                    Encode(Admission{.admitted = false, .generation = 0, .why = differences}),
                                    options_.deadline));
      }
    }
    return {};
  }

  int Present() const {
    return static_cast<int>(
        std::count_if(claims_.begin(), claims_.end(), [](const auto& claim) { return claim.has_value(); }));
  }
  int Room() const { return options_.rules.max_ranks - Present(); }

  bool IsTime(TimePoint now) const {
    const int ranks = Present() + static_cast<int>(waiting_.size());
    if (ranks < options_.rules.min_ranks) return false;
    if (now >= settled_at_) return true;
    return Awaited().empty() && static_cast<int>(waiting_.size()) >= Room();
  }

  // The claim keys of the ranks that have not written a claim and may still be alive.
  std::vector<std::string> Awaited() const {
    std::vector<std::string> keys;
    for (std::size_t rank = 0; rank < previous().size(); ++rank)
      if (!claims_[rank] && dead_.count(static_cast<Rank>(rank)) == 0) keys.push_back(ClaimKey(generation_, rank));
    return keys;
  }

  Status AwaitNews(TimePoint until) {
    const std::vector<std::string> awaited = Awaited();
    const std::string roster = RosterKey(generation_);
    const auto news = awaited.empty() ? store_.Wait({&roster, 1}, {.deadline = until, .cancel_key = {}})
                                      : store_.Wait(awaited, {.deadline = until, .cancel_key = roster});
    // A timeout only means that nothing new appeared. If the store no longer answers, the next Look gives the error.
    if (news || news.error().code() == ErrorCode::kAborted || news.error().code() == ErrorCode::kStoreTimeout)
      return {};
    return Fail(news.error());
  }

  std::string WhyNot(std::size_t rank, const Roster& before) const {
    for (std::size_t other = 0; other < claims_.size(); ++other) {
      const auto& claim = claims_[other];
      if (!claim || std::find(claim->lost.begin(), claim->lost.end(), static_cast<Rank>(rank)) == claim->lost.end())
        continue;
      return fmt::format("was found dead by rank {}{}{}", before.members[other].old_rank,
                         claim->cause.empty() ? "" : ": ", claim->cause);
    }
    return fmt::format("did not come within {:.3g} s", Seconds(clock_.Now() - began_));
  }

  Result<Roster> Propose() {
    const Roster before = Previous();
    Roster roster{.generation = generation_,
                  .last_run = before.last_run,
                  .members = {},
                  .departed = before.departed,
                  .rules = options_.rules};
    for (std::size_t rank = 0; rank < before.members.size(); ++rank) {
      if (claims_[rank]) {
        roster.members.push_back(before.members[rank]);
      } else if (before.members[rank].old_rank != kNoRank) {
        roster.departed.push_back({.who = before.members[rank], .why = WhyNot(rank, before)});
      }
    }
    std::stable_sort(roster.departed.begin(), roster.departed.end(),
                     [](const Departed& a, const Departed& b) { return a.who.old_rank < b.who.old_rank; });
    for (const Joiner& joiner : waiting_) {
      roster.members.push_back(joiner.who);
      roster.members.back().old_rank = kNoRank;
      roster.members.back().joiner = joiner.number;
    }
    const std::string record = Encode(roster);
    if (record.size() > kMaxValueBytes)
      return Fail(ErrorCode::kResource,
                  "the roster of {} ranks has {} bytes, but a value in the store may have at most {}",
                  roster.members.size(), record.size(), kMaxValueBytes);
    RONDO_ASSIGN(const CompareSetResult result,
                 store_.CompareSet(RosterKey(generation_), std::nullopt, record, options_.deadline));
    if (result.swapped) return Enter(roster);
    RONDO_ASSIGN(const Roster standing, Decode(result.current, generation_, store_));
    return Enter(standing);
  }

  Result<Roster> Enter(const Roster& roster) {
    const auto own = std::find_if(roster.members.begin(), roster.members.end(),
                                  [&](const RosterEntry& member) { return member.instance == self().instance; });
    if (own == roster.members.end()) return tl::unexpected(LeftOut(roster));
    std::vector<KeyValue> admissions;
    for (const RosterEntry& member : roster.members)
      if (member.joiner != 0)
        admissions.push_back(
            {AdmissionKey(member.joiner), Encode(Admission{.admitted = true, .generation = generation_, .why = {}})});
    if (!admissions.empty()) RONDO_TRY(store_.SetMany(admissions, options_.deadline));
    Log(options_.logger, LogLevel::kInfo, "job '{}': {} of {} ranks continue in generation {}", options_.job,
        roster.members.size(), previous().size(), generation_);
    return roster;
  }

  Error LeftOut(const Roster& roster) const {
    const auto own = std::find_if(roster.departed.begin(), roster.departed.end(),
                                  [&](const Departed& one) { return one.who.instance == self().instance; });
    ErrorDetails details;
    details.code = ErrorCode::kStale;
    details.message = fmt::format(
        "generation {} of job '{}' continues with {} ranks and without this process ({}, rank {} before): it {}; "
        "start a new process that joins",
        generation_, options_.job, roster.members.size(), Who(self()), self().old_rank,
        own == roster.departed.end() ? "did not come in time" : own->why);
    details.rank = self().old_rank;
    return Error(std::move(details));
  }

  Error TooFew() const {
    std::string absent;
    std::size_t listed = 0;
    for (std::size_t rank = 0; rank < previous().size(); ++rank) {
      if (claims_[rank] || ++listed > kListedAbsent) continue;
      absent += fmt::format("{}rank {} ({}): {}", absent.empty() ? "" : "; ", previous()[rank].old_rank,
                            Who(previous()[rank]), WhyNot(rank, options_.previous));
    }
    if (listed > kListedAbsent) absent += fmt::format("; and {} more", listed - kListedAbsent);
    ErrorDetails details;
    details.code = ErrorCode::kRebuildFailed;
    details.message = fmt::format(
        "{} ranks are present to continue after generation {} of job '{}', but at least {} are needed, and no more "
        "came within {:.3g} s; absent: {}",
        Present() + static_cast<int>(waiting_.size()), options_.previous.last_run, options_.job,
        options_.rules.min_ranks, Seconds(clock_.Now() - began_), absent.empty() ? "none" : absent);
    details.rank = self().old_rank;
    return Error(std::move(details));
  }

  PrefixStore store_;
  const Clock& clock_;
  const RosterOptions& options_;
  const std::uint64_t generation_;
  const TimePoint began_;
  TimePoint settled_at_;

  std::vector<Rank> lost_;  // the dead ranks that this process's latest claim lists
  // The values below are from the last Look.
  std::optional<Roster> standing_;
  std::vector<std::optional<Claim>> claims_;  // by rank
  std::set<Rank> dead_;                       // the ranks of the last roster that at least one claim reports as dead
  std::vector<Joiner> waiting_;               // the waiting joiners, not more than max_ranks allows
};

// ---- joiners ----

Result<Roster> ReadAdmission(Store& store, const std::string& bytes, const JoinerOptions& options) {
  const std::optional<Admission> admission = DecodeAdmission(bytes);
  if (!admission)
    return Fail(
        ErrorCode::kProtocol,
        "the admission record in store {} cannot be read; a process with another version of Rondo may have written it",
        store.Describe());
  if (!admission->admitted)
    return Fail(ErrorCode::kVersionMismatch,
                "this process ({}) cannot join job '{}': {} ('here' is this process, 'there' are the running ranks)",
                Who(options.self), options.job, admission->why);
  RONDO_ASSIGN(const std::string record, store.WaitFor(RosterKey(admission->generation), options.deadline));
  return Decode(record, admission->generation, store);
}

}  // namespace

Result<Roster> AgreeOnRoster(Store& store, const Clock& clock, const RosterOptions& options) {
  const RosterRules& rules = options.rules;
  if (!rules.LeaveANumber())
    return Fail(ErrorCode::kInvalidArgument,
                "min_ranks is {} and max_ranks is {}; expected min_ranks of at least 1, and max_ranks of at least "
                "min_ranks, or 0 for no limit",
                rules.min_ranks, rules.max_ranks);
  if (options.rank < 0 || static_cast<std::size_t>(options.rank) >= options.previous.members.size())
    return Fail(ErrorCode::kInvalidArgument, "rank {} is outside 0..{}", options.rank,
                options.previous.members.size() - 1);
  return Agreement(store, clock, options).Agree();
}

Result<Roster> AwaitAdmission(Store& store, const Clock& clock, const JoinerOptions& options) {
  const TimePoint began = clock.Now();
  PrefixStore own(store, Prefix(options.first_generation, options.job));
  RONDO_ASSIGN(const std::int64_t number, own.Add(kJoiners, 1, options.deadline));
  if (number < 1)
    return Fail(ErrorCode::kProtocol, "store {} returned {} as the number of joiners; expected at least 1",
                store.Describe(), number);
  const auto at = static_cast<std::uint64_t>(number);
  const std::string key = JoinerKey(at);
  RONDO_TRY(
      own.Set(key, Encode(Joiner{.number = at, .who = options.self, .config = options.config}), options.deadline));
  // The last tenth of the time until the deadline, at most 500 ms, is reserved for withdrawing the request.
  const TimePoint until =
      options.deadline - std::min<Duration>((options.deadline - began) / 10, std::chrono::milliseconds(500));
  const auto answer = own.WaitFor(AdmissionKey(at), until);
  if (answer) return ReadAdmission(own, *answer, options);
  if (answer.error().code() != ErrorCode::kStoreTimeout) return Fail(answer.error());
  RONDO_TRY(own.DeleteMany({&key, 1}, options.deadline));
  // A rank that read the request before it was deleted may have admitted this process.
  RONDO_ASSIGN(const auto late, own.Get(AdmissionKey(at), options.deadline));
  if (late) return ReadAdmission(own, *late, options);
  return Fail(ErrorCode::kRendezvousTimeout,
              "no rank of job '{}' admitted this process ({}) through store {} within {:.3g} s: it can join only when "
              "the running ranks rebuild their communicator with room for more ranks (RebuildOptions::max_ranks)",
              options.job, Who(options.self), store.Describe(), Seconds(clock.Now() - began));
}

}  // namespace rondo
