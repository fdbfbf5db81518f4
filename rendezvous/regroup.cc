#include "rendezvous/regroup.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "rendezvous/prefix_store.h"
#include "rendezvous/roster_agreement.h"

namespace rondo {
namespace {

// All processes of the roster took part in the agreement just before, so their rendezvous takes milliseconds. A process
// that is missing after this time counts as dead.
constexpr Duration kRegroupRendezvousTimeout = std::chrono::seconds(5);

Error Failed(const RosterPlace& standing, const RegroupOptions& options, const Error& cause) {
  return cause.With([&](ErrorDetails& details) {
    details.code = ErrorCode::kRebuildFailed;
    details.message = fmt::format("the remaining ranks of generation {} of job '{}' could not form a new generation",
                                  standing.roster.last_run, options.job);
    if (cause.code() == ErrorCode::kStoreLost && !options.if_store_is_lost.empty())
      details.message += "; " + options.if_store_is_lost;
    details.rank = standing.roster.members.empty()
                       ? kNoRank
                       : standing.roster.members[static_cast<std::size_t>(standing.rank)].old_rank;
    details.first_cause = cause.ToString();
  });
}

// Whether the error means that this attempt failed but another one may succeed.
bool IsRetryable(ErrorCode code) { return code == ErrorCode::kRendezvousTimeout; }

Rank RankIn(const Roster& roster, const std::string& instance) {
  const auto own = std::find_if(roster.members.begin(), roster.members.end(),
                                [&](const RosterEntry& member) { return member.instance == instance; });
  return own == roster.members.end() ? kNoRank : static_cast<Rank>(own - roster.members.begin());
}

class Regrouping {
 public:
  Regrouping(Store& store, const Clock& clock, const RegroupOptions& options, RosterPlace& standing)
      // rendezvous_store_ has a prefix of its own, because the job may have other rendezvous with the same generations.
      : store_(store),
        rendezvous_store_(store, fmt::format("rebuild/{}/", options.first_generation)),
        clock_(clock),
        options_(options),
        standing_(standing) {}

  // Agrees on a roster and performs its rendezvous. Repeats both until a rendezvous succeeds.
  Result<Membership> Try() {
    for (;;) {
      auto roster = AgreeOnRoster(store_, clock_,
                                  {.job = options_.job,
                                   .first_generation = options_.first_generation,
                                   .previous = standing_.roster,
                                   .rank = standing_.rank,
                                   .cause = options_.cause,
                                   .lost = options_.lost,
                                   .config = options_.config,
                                   .rules = options_.rules,
                                   .deadline = options_.deadline,
                                   .logger = options_.logger});
      if (!roster) return tl::unexpected(Final(roster.error()));
      const std::string instance = standing_.roster.members[static_cast<std::size_t>(standing_.rank)].instance;
      standing_.rank = RankIn(*roster, instance);
      standing_.roster = *std::move(roster);
      auto membership = PerformRendezvous();
      if (membership) return membership;
      if (!IsRetryable(membership.error().code()) || clock_.Now() >= options_.deadline)
        return tl::unexpected(Final(membership.error()));
      Log(options_.logger, LogLevel::kWarning, "generation {} of job '{}' was not formed: {}",
          standing_.roster.generation, options_.job, membership.error().message());
    }
  }

  Result<Membership> PerformRendezvous() {
    RONDO_ASSIGN(Member self, options_.make_self(standing_.roster.generation));
    return Join(rendezvous_store_, clock_,
                {.rank = standing_.rank,
                 .world_size = static_cast<int>(standing_.roster.members.size()),
                 .job = options_.job,
                 .generation = standing_.roster.generation,
                 .self = std::move(self),
                 .deadline = std::min(Later(clock_.Now(), kRegroupRendezvousTimeout), options_.deadline),
                 .logger = options_.logger});
  }

 private:
  Error Final(const Error& error) const {
    switch (error.code()) {
      case ErrorCode::kInvalidArgument:
      case ErrorCode::kRebuildFailed:
      case ErrorCode::kStale: return error;
      default: return Failed(standing_, options_, error);
    }
  }

  Store& store_;
  PrefixStore rendezvous_store_;
  const Clock& clock_;
  const RegroupOptions& options_;
  RosterPlace& standing_;
};

}  // namespace

RosterPlace Running(Roster roster, Rank rank) {
  for (std::size_t at = 0; at < roster.members.size(); ++at) {
    roster.members[at].old_rank = static_cast<Rank>(at);
    roster.members[at].joiner = 0;
  }
  roster.last_run = roster.generation;
  roster.departed.clear();
  return {.roster = std::move(roster), .rank = rank};
}

RosterPlace Running(const Membership& membership) {
  Roster roster{.generation = membership.generation,
                .last_run = membership.generation,
                .members = {},
                .departed = {},
                .rules = {}};
  for (const Member& member : membership.members)
    roster.members.push_back({.instance = member.instance, .host = member.host, .pid = member.pid});
  return Running(std::move(roster), membership.rank);
}

Result<Membership> Regroup(Store& store, const Clock& clock, const RegroupOptions& options, RosterPlace& standing) {
  return Regrouping(store, clock, options, standing).Try();
}

Result<Membership> RegroupAsJoiner(Store& store, const Clock& clock, const RegroupOptions& options,
                                   const RosterEntry& self, RosterPlace& standing) {
  RONDO_ASSIGN(standing.roster, AwaitAdmission(store, clock,
                                               {.job = options.job,
                                                .first_generation = options.first_generation,
                                                .self = self,
                                                .config = options.config,
                                                .deadline = options.deadline}));
  standing.rank = RankIn(standing.roster, self.instance);
  if (standing.rank == kNoRank)
    return Fail(ErrorCode::kProtocol,
                "according to store {}, generation {} of job '{}' admitted this process, but the roster of that "
                "generation does not contain it",
                store.Describe(), standing.roster.generation, options.job);
  RegroupOptions joined = options;
  joined.rules = standing.roster.rules;
  Regrouping regrouping(store, clock, joined, standing);
  auto membership = regrouping.PerformRendezvous();
  if (membership || !IsRetryable(membership.error().code())) return membership;
  return regrouping.Try();
}

}  // namespace rondo
