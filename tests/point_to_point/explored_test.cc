// Interleaves the actions of two ranks (calls of the user, and polls) in every order. The checks of each scenario must
// hold in all orders, and over three kinds of lanes: those that deliver writes whole, those that deliver in slices, and
// those that release memory late.
#include <doctest/doctest.h>

#include <functional>
#include <vector>

#include "tests/point_to_point/world.h"
#include "tests/support/sanitized.h"

namespace rondo {
namespace explored_test {

constexpr MessageLimits kSmall{
    .eager_message_bytes = 100, .eager_credit_bytes = 256, .max_announced_messages = 2, .body_frame_bytes = 128};
const TimePoint kTooLate = TimePoint{} + std::chrono::seconds(11);

// One run of a scenario: its operations, in the order of their issue.
struct Run {
  explicit Run(const InprocOptions& network) : world({.network = network, .limits = kSmall}) {}
  MessageWorld world;
  std::vector<TestOperation*> sends, receives;  // operations of both ranks
};

using Action = std::function<void(Run&)>;
struct ExploredScenario {
  const char* name;
  std::vector<Action> rank0, rank1;
  std::function<void(Run&)> judge;  // called after everything has ended
};

Action Send(Rank from, Tag tag, const std::string& text) {
  return [=](Run& run) { run.sends.push_back(&run.world.Send(from, 1 - from, tag, text)); };
}
Action Recv(Rank at, Rank from, Tag tag, std::size_t room) {
  return [=](Run& run) { run.receives.push_back(&run.world.Recv(at, from, tag, room)); };
}

// Tries every order of the two ranks' actions. Polls of a rank follow each of its actions, and the other rank's actions
// may come between them.
void Explore(const ExploredScenario& scenario, const InprocOptions& network, int polls) {
  CAPTURE(scenario.name);
  std::vector<Action> actions[2] = {scenario.rank0, scenario.rank1};
  for (Rank r : {0, 1}) {
    std::vector<Action> with_polls;
    for (const Action& action : actions[r]) {
      with_polls.push_back(action);
      with_polls.push_back([r](Run& run) { run.world.Poll(r); });
    }
    for (int i = 0; i < polls; ++i) with_polls.push_back([r](Run& run) { run.world.Poll(r); });
    actions[r] = std::move(with_polls);
  }
  // An interleaving is a number with a bit for each position: 1 for an action of rank 0. A number is used only
  // if it has exactly one 1 bit for each action of rank 0.
  const std::size_t own = actions[0].size(), all = own + actions[1].size();
  REQUIRE(all <= 20);
  int orders = 0, runs = 0;
  for (std::uint32_t bits = 0; bits < (1u << all); ++bits) {
    if (static_cast<std::size_t>(std::popcount(bits)) != own || orders++ % Every(3) != 0) continue;
    CAPTURE(bits);
    Run run(network);
    std::size_t next[2] = {0, 0};
    for (std::size_t i = 0; i < all; ++i) {
      const std::size_t r = (bits >> i & 1) != 0 ? 0 : 1;
      actions[r][next[r]++](run);
    }
    run.world.Finish();
    run.world.Settle();
    for (const Rank r : {0, 1}) {
      CHECK_FALSE(run.world.failure(r));
      CHECK_FALSE(run.world.engine(r).HasOutput());
    }
    for (const auto* list : {&run.sends, &run.receives})
      for (const TestOperation* one : *list) CHECK(one->walls_stand());
    scenario.judge(run);
    ++runs;
  }
  CHECK(runs > 100 / Every(3));
}

void ExploreAll(const ExploredScenario& scenario, int polls = 2) {
  for (const InprocOptions& network :
       {InprocOptions{}, InprocOptions{.ring_bytes = 64, .slice_bytes = 40},
        InprocOptions{.late_release = true, .slice_bytes = 100, .reluctant = true, .slow_connect_polls = 3}})
    Explore(scenario, network, polls);
}

TEST_CASE("a small and a large message reach their receives in every order of calls and polls") {
  ExploreAll({"small then large, received the other way round",
              {Send(0, 1, Payload(0, 1, 0, 50)), Send(0, 2, Payload(0, 2, 0, 300))},
              {Recv(1, 0, 2, 300), Recv(1, 0, 1, 50)},
              [](Run& run) {
                CHECK(run.receives[0]->text() == Payload(0, 2, 0, 300));
                CHECK(run.receives[1]->text() == Payload(0, 1, 0, 50));
                CHECK(run.sends[0]->good());
                CHECK(run.sends[1]->good());
              }});
}

TEST_CASE("three messages of one tag are received in their order, by whatever receives") {
  ExploreAll({"one tag",
              {Send(0, 1, "first"), Send(0, 1, Payload(0, 1, 1, 200)), Send(0, 1, "")},
              {Recv(1, kAnyRank, kAnyTag, 300), Recv(1, 0, 1, 300), Recv(1, kAnyRank, 1, 300)},
              [](Run& run) {
                CHECK(run.receives[0]->text() == "first");
                CHECK(run.receives[1]->text() == Payload(0, 1, 1, 200));
                CHECK(run.receives[2]->text().empty());
              }},
             /*polls=*/1);
}

TEST_CASE("large messages cross") {
  ExploreAll({"both ways",
              {Send(0, 1, Payload(0, 1, 0, 500)), Recv(0, 1, 1, 500)},
              {Send(1, 1, Payload(1, 1, 0, 500)), Recv(1, 0, 1, 500)},
              [](Run& run) {
                for (const TestOperation* got : run.receives)
                  CHECK(got->text() == Payload(got->operation.message.source, 1, 0, 500));
              }});
}

TEST_CASE("a message that does not fit fails its receive alone") {
  for (const std::size_t bytes : {90, 400})
    ExploreAll({"too long",
                {Send(0, 1, Payload(0, 1, 0, bytes)), Send(0, 1, "next")},
                {Recv(1, 0, 1, 10), Recv(1, 0, 1, 10)},
                [bytes](Run& run) {
                  CHECK(run.receives[0]->error().find("mismatch") == 0);
                  CHECK(run.receives[0]->rest_untouched());
                  CHECK(run.receives[1]->text() == "next");
                  CHECK(run.sends[0]->good() == (bytes == 90));
                }});
}

TEST_CASE("a withdrawal crosses with the clearance, and the receive gets the next message whole") {
  ExploreAll({"withdrawn",
              {Send(0, 1, std::string(300, 'a')),
               [](Run& run) {
                 // A send whose body is already being sent cannot be withdrawn.
                 const MessageStage stage = run.sends[0]->operation.stage;
                 if (stage == MessageStage::kQueued || stage == MessageStage::kAnnounced)
                   run.world.engine(0).Expire(kTooLate);
               },
               Send(0, 1, std::string(400, 'b'))},
              {Recv(1, kAnyRank, 1, 400)},
              [](Run& run) {
                const bool withdrawn = run.sends[0]->error().find("timeout") == 0;
                CHECK(withdrawn != run.sends[0]->good());
                CHECK(run.receives[0]->text() == (withdrawn ? std::string(400, 'b') : std::string(300, 'a')));
              }},
             /*polls=*/3);
}

TEST_CASE("a rank that ends lets its peer's sends and receives end too") {
  ExploreAll({"the end",
              {Send(0, 1, std::string(300, 'a')), Recv(0, 1, 2, 10)},
              {Send(1, 3, "bye"), [](Run& run) { run.world.engine(1).BeginEnd(); }},
              [](Run& run) {
                for (const TestOperation* one : run.sends)
                  CHECK((one->good() || one->error().find("closed: rank 1 closed") == 0));
                CHECK(run.receives[0]->error().find("closed: rank 1 closed") == 0);
              }},
             /*polls=*/3);
}

}  // namespace explored_test
}  // namespace rondo
