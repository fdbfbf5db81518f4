#include "rendezvous/regroup.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "rendezvous/prefix_store.h"
#include "rendezvous/roster_agreement.h"

namespace rondo {
namespace {

// A rendezvous of processes that were all present a moment ago takes milliseconds. A process that is missing after this
// time counts as dead.
constexpr Duration kMeetingPatience = std::chrono::seconds(5);

Error Failed(const RosterPlace& standing, const RegroupOptions& options, const Error& cause) {
  return cause.With([&](ErrorDetails& details) {
    details.code = ErrorCode::kRebuildFailed;
    details.message = fmt::format("the ranks left of generation {} of job '{}' could not come together",
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
bool MeetingFailed(ErrorCode code) { return code == ErrorCode::kRendezvousTimeout; }

Rank RankIn(const Roster& roster, const std::string& instance) {
  const auto own = std::find_if(roster.members.begin(), roster.members.end(),
                                [&](const RosterEntry& member) { return member.instance == instance; });
  return own == roster.members.end() ? kNoRank : static_cast<Rank>(own - roster.members.begin());
}

class Regrouping {
 public:
  Regrouping(Store& store, const Clock& clock, const RegroupOptions& options, RosterPlace& standing)
      // meetings_ has a prefix of its own: the job may have other rendezvous with the same generations.
      : store_(store),
        meetings_(store, fmt::format("rebuild/{}/", options.first_generation)),
        clock_(clock),
        options_(options),
        standing_(standing) {}

  // Agrees on a roster and performs its rendezvous until one succeeds.
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
      auto membership = Meet();
      if (membership) return membership;
      if (!MeetingFailed(membership.error().code()) || clock_.Now() >= options_.deadline)
        return tl::unexpected(Final(membership.error()));
      Log(options_.logger, LogLevel::kWarning, "generation {} of job '{}' did not come to be: {}",
          standing_.roster.generation, options_.job, membership.error().message());
    }
  }

  Result<Membership> Meet() {
    RONDO_ASSIGN(Member self, options_.make_self(standing_.roster.generation));
    return Join(meetings_, clock_,
                {.rank = standing_.rank,
                 .world_size = static_cast<int>(standing_.roster.members.size()),
                 .job = options_.job,
                 .generation = standing_.roster.generation,
                 .self = std::move(self),
                 .deadline = std::min(Later(clock_.Now(), kMeetingPatience), options_.deadline),
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
  PrefixStore meetings_;
  const Clock& clock_;
  const RegroupOptions& options_;
  RosterPlace& standing_;
};

}  // namespace

RosterPlace Running(Roster roster, Rank rank) {
  for (std::size_t at = 0; at < roster.members.size(); ++at) {
    roster.members[at].old_rank = static_cast<Rank>(at);
    roster.members[at].newcomer = 0;
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

Result<Membership> RegroupAsNewcomer(Store& store, const Clock& clock, const RegroupOptions& options,
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
                "store {} says that generation {} of job '{}' admitted this process, whose roster lacks it",
                store.Describe(), standing.roster.generation, options.job);
  RegroupOptions joined = options;
  joined.rules = standing.roster.rules;
  Regrouping regrouping(store, clock, joined, standing);
  auto membership = regrouping.Meet();
  if (membership || !MeetingFailed(membership.error().code())) return membership;
  return regrouping.Try();
}

}  // namespace rondo
