// Tests the agreement on a roster under every order of the processes' calls, up to a number of preemptions. One process
// can die, before any of its calls. There are two settings: with patient true, no living process is late; with patient
// false, any process may be arbitrarily slow. In both settings no process may see two rosters or two rendezvous
// of one generation. If patient is true, all living processes must continue.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/regroup.h"
#include "rendezvous/roster_agreement.h"
#include "tests/rendezvous/explored_store.h"
#include "tests/support/sanitized.h"

namespace rondo {
namespace regroup_explored_test {

using namespace std::chrono_literals;

// Deaths are tested before each of a process's first kMaxCalls calls of the store. Only an arbitrarily slow process
// makes more calls.
constexpr int kMaxCalls = 40;

Roster RunningRoster(int ranks) {
  Roster roster{.generation = 1, .last_run = 1, .members = {}, .departed = {}};
  for (Rank rank = 0; rank < ranks; ++rank)
    roster.members.push_back({.instance = "i" + std::to_string(rank), .host = "h", .pid = 1, .old_rank = rank});
  return roster;
}

// The result of each process; nullopt if it died or has not ended.
struct Ends {
  std::vector<std::optional<Result<Roster>>> rosters;
  std::vector<std::optional<Result<Membership>>> memberships;
  bool death_came = false;
};

struct Scenario {
  int ranks = 3;    // ranks that run in generation 1
  int joiners = 0;  // joiners in addition to the ranks
  RosterRules rules = {.min_ranks = 1, .max_ranks = 0, .settle = 200ms};
  bool full_regroup = false;  // true: the whole regrouping; false: the agreement on the roster only
  int preemptions = 2;
  std::vector<Rank> absent = {};  // ranks that are dead from the beginning; the other ranks do not know this
  std::size_t processes() const { return static_cast<std::size_t>(ranks) + static_cast<std::size_t>(joiners); }
};

void Live(const Scenario& scenario, std::size_t id, ExploredStore& store, ManualClock& clock, Ends& ends) {
  const Roster running = RunningRoster(scenario.ranks);
  const TimePoint deadline = clock.Now() + 60s;
  RegroupOptions regroup{.job = "j", .first_generation = 1, .cause = "", .lost = nullptr, .rules = scenario.rules};
  regroup.make_self = [id](std::uint64_t generation) -> Result<Member> {
    Member self;
    self.instance = std::to_string(id) + " in " + std::to_string(generation);
    return self;
  };
  regroup.deadline = deadline;
  const bool is_new = static_cast<int>(id) >= scenario.ranks;
  const RosterEntry self{.instance = "i" + std::to_string(id), .host = "h", .pid = 1};
  RosterPlace standing{.roster = running, .rank = static_cast<Rank>(id)};
  if (scenario.full_regroup) {
    ends.memberships[id] =
        is_new ? RegroupAsJoiner(store, clock, regroup, self, standing) : Regroup(store, clock, regroup, standing);
  } else if (is_new) {
    ends.rosters[id] = AwaitAdmission(
        store, clock, {.job = "j", .first_generation = 1, .self = self, .config = "", .deadline = deadline});
  } else {
    ends.rosters[id] = AgreeOnRoster(store, clock,
                                     {.job = "j",
                                      .first_generation = 1,
                                      .previous = running,
                                      .rank = static_cast<Rank>(id),
                                      .cause = "",
                                      .lost = nullptr,
                                      .config = "",
                                      .rules = scenario.rules,
                                      .deadline = deadline});
  }
}

// Runs every schedule and gives their number.
int ExploreOne(const Scenario& scenario, std::optional<Death> death, bool patient,
               const std::function<void(const Ends&)>& judge) {
  const std::size_t processes = scenario.processes();
  Explorer explorer(scenario.preemptions);
  do {
    ManualClock clock;
    ExploredStore store(explorer, clock, processes, death, patient);
    Ends ends;
    ends.rosters.resize(processes);
    ends.memberships.resize(processes);
    std::vector<std::function<void()>> bodies;
    for (std::size_t id = 0; id < processes; ++id)
      bodies.push_back([&, id] {
        const bool absent =
            std::find(scenario.absent.begin(), scenario.absent.end(), static_cast<Rank>(id)) != scenario.absent.end();
        try {
          if (!absent) Live(scenario, id, store, clock, ends);
        } catch (const ExploredStore::Died&) {
        }
        store.End();
      });
    explorer.Run(std::move(bodies));
    ends.death_came = store.death_came();
    judge(ends);
  } while (explorer.NextSchedule());
  CHECK(explorer.deadlocks() == 0);
  return explorer.schedules();
}

// Explores the scenario without a death, then with a death of each process before each of its calls.
void Explore(const Scenario& scenario, bool patient,
             const std::function<void(const Ends&, std::optional<Death>)>& judge) {
  CAPTURE(patient);
  int schedules = ExploreOne(scenario, std::nullopt, patient, [&](const Ends& ends) { judge(ends, std::nullopt); });
  for (std::size_t process = 0; process < scenario.processes(); ++process) {
    // With a sanitizer, only a death before every eleventh call of a process is tested; the first such call differs
    // between processes.
    int call = static_cast<int>(process) % Every(11);
    for (bool came = true; came && call < kMaxCalls; call += Every(11)) {
      came = false;
      const Death death{process, call};
      CAPTURE(process);
      CAPTURE(call);
      schedules += ExploreOne(scenario, death, patient, [&](const Ends& ends) {
        came = came || ends.death_came;
        judge(ends, ends.death_came ? std::optional(death) : std::nullopt);
      });
    }
  }
  MESSAGE(schedules << " schedules");
  CHECK(schedules > 500 / Every(11));
}

std::vector<std::string> Instances(const Roster& roster) {
  std::vector<std::string> instances;
  for (const RosterEntry& member : roster.members) instances.push_back(member.instance);
  return instances;
}

// Must hold for both values of `patient`: there is one roster, every process that got it is a member of it, and all
// other processes got an error.
void CheckOneRoster(const Ends& ends) {
  std::optional<std::vector<std::string>> the_roster;
  for (std::size_t id = 0; id < ends.rosters.size(); ++id) {
    const auto& end = ends.rosters[id];
    if (!end) continue;
    if (!*end) {
      const ErrorCode code = end->error().code();
      CHECK((code == ErrorCode::kStale || code == ErrorCode::kRendezvousTimeout));
      continue;
    }
    CHECK((*end)->generation == 2);
    const auto instances = Instances(**end);
    if (!the_roster) the_roster = instances;
    CHECK(instances == *the_roster);
    CHECK(std::count(instances.begin(), instances.end(), "i" + std::to_string(id)) == 1);
  }
  if (!the_roster) return;
  // A joiner that gives up counts as dead, even if a roster contains it.
  for (std::size_t id = 0; id < ends.rosters.size(); ++id)
    if (ends.rosters[id] && !*ends.rosters[id] && ends.rosters[id]->error().code() == ErrorCode::kStale)
      CHECK(std::count(the_roster->begin(), the_roster->end(), "i" + std::to_string(id)) == 0);
}

// Checks whole regroupings in both settings: all processes that continue are in the same rendezvous of one generation.
void CheckOneRendezvous(const Ends& ends) {
  std::optional<std::uint64_t> generation;
  std::vector<std::string> members;
  for (std::size_t id = 0; id < ends.memberships.size(); ++id) {
    const auto& end = ends.memberships[id];
    if (!end) continue;
    if (!*end) {
      const ErrorCode code = end->error().code();
      CHECK((code == ErrorCode::kStale || code == ErrorCode::kRebuildFailed || code == ErrorCode::kRendezvousTimeout));
      continue;
    }
    std::vector<std::string> instances;
    for (const Member& member : (*end)->members) instances.push_back(member.instance);
    if (!generation) {
      generation = (*end)->generation;
      members = instances;
    }
    CHECK((*end)->generation == *generation);
    CHECK(instances == members);
    CHECK(instances[static_cast<std::size_t>((*end)->rank)] ==
          std::to_string(id) + " in " + std::to_string(*generation));
  }
}

TEST_CASE("There is one roster, whichever rank is slow and whichever rank dies before whatever call") {
  Explore({}, /*patient=*/false, [](const Ends& ends, std::optional<Death>) { CheckOneRoster(ends); });
}

TEST_CASE("Every rank that lives and is in time is in the roster, whichever rank dies before whatever call") {
  Explore({}, /*patient=*/true, [](const Ends& ends, std::optional<Death> death) {
    CheckOneRoster(ends);
    for (std::size_t id = 0; id < ends.rosters.size(); ++id) {
      if (death && death->process == id) continue;
      REQUIRE(ends.rosters[id].has_value());
      CHECK(ends.rosters[id]->has_value());
    }
  });
}

TEST_CASE("A joiner is in the one roster or in none") {
  const Scenario scenario{
      .ranks = 2, .joiners = 1, .rules = {.min_ranks = 1, .max_ranks = 3, .settle = 200ms}, .preemptions = 1};
  for (const bool patient : {false, true})
    Explore(scenario, patient, [&](const Ends& ends, std::optional<Death> death) {
      CheckOneRoster(ends);
      if (patient && !death) CHECK((ends.rosters[2].has_value() && ends.rosters[2]->has_value()));
    });
}

TEST_CASE("There is one rendezvous, whichever rank is slow and whichever rank dies before whatever call") {
  const Scenario scenario{.ranks = 3, .full_regroup = true, .preemptions = 1};
  Explore(scenario, /*patient=*/false, [](const Ends& ends, std::optional<Death>) { CheckOneRendezvous(ends); });
}

TEST_CASE("Every rank that lives and is in time continues, though another dies before whatever call of the rebuild") {
  const Scenario scenario{.ranks = 4, .full_regroup = true, .preemptions = 1, .absent = {1}};
  Explore(scenario, /*patient=*/true, [](const Ends& ends, std::optional<Death> death) {
    CheckOneRendezvous(ends);
    for (const std::size_t id : {0u, 2u, 3u}) {
      if (death && death->process == id) continue;
      REQUIRE(ends.memberships[id].has_value());
      CHECK_MESSAGE(ends.memberships[id]->has_value(), ends.memberships[id]->error().ToString());
    }
  });
}

}  // namespace regroup_explored_test
}  // namespace rondo
