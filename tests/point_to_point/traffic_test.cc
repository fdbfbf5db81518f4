// Random traffic among several ranks, compared with a model: every message is received exactly once and whole, by a
// receive that matches it, in the order of its (sender, tag).
#include <doctest/doctest.h>

#include <map>
#include <set>
#include <tuple>

#include "tests/point_to_point/world.h"

namespace rondo {
namespace traffic_test {

// The tag decides how a message is received, so that no wildcard takes a message that another receive needs.
constexpr Tag kExactTags = 6;     // 0..5: received by rank and tag
constexpr Tag kAnyRankTags = 10;  // 6..9: received by tag, from any rank

struct Planned {
  Rank from, to;
  Tag tag;
  int number;  // number of this message among those with the same (from, to, tag)
  std::size_t bytes;
};

struct Receive {
  Rank at, from;
  Tag tag;
  TestOperation* operation = nullptr;
};

std::vector<Planned> PlanMessages(Random& random, int ranks, int messages) {
  std::vector<Planned> plan;
  std::map<std::tuple<Rank, Rank, Tag>, int> numbers;
  for (int i = 0; i < messages; ++i) {
    const auto from = static_cast<Rank>(random.Below(static_cast<std::uint64_t>(ranks)));
    const auto to = static_cast<Rank>(random.Below(static_cast<std::uint64_t>(ranks)));
    const auto tag = static_cast<Tag>(random.Below(kAnyRankTags));
    const std::size_t bytes = random.Chance(0.6) ? random.Below(120) : random.Below(3000);
    plan.push_back({from, to, tag, numbers[{from, to, tag}]++, bytes});
  }
  return plan;
}

template <typename T>
void Shuffle(std::vector<T>& values, Random& random) {
  for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random.Below(i)]);
}

void RunTraffic(const InprocOptions& network, std::uint64_t seed) {
  CAPTURE(seed);
  Random random(seed);
  const int ranks = static_cast<int>(random.Between(1, 5));
  MessageWorld world({.ranks = ranks,
                      .network = network,
                      .limits = {.eager_message_bytes = 100,
                                 .eager_credit_bytes = 64 * random.Between(1, 12),
                                 .max_announced_messages = static_cast<std::uint32_t>(random.Between(20, 60)),
                                 .body_frame_bytes = static_cast<std::uint32_t>(64 * random.Between(1, 10))},
                      .seed = seed});
  const std::vector<Planned> plan = PlanMessages(random, ranks, 60);
  std::vector<Receive> receives;
  for (const Planned& one : plan) receives.push_back({one.to, one.tag < kExactTags ? one.from : kAnyRank, one.tag});
  Shuffle(receives, random);

  // Sends are issued in the order of the plan, and receives in a random order, with polls in between.
  std::size_t sent = 0, received = 0;
  std::vector<TestOperation*> sends;
  while (sent < plan.size() || received < receives.size()) {
    switch (random.Below(4)) {
      case 0:
        if (sent == plan.size()) break;
        sends.push_back(&world.Send(plan[sent].from, plan[sent].to, plan[sent].tag,
                                    Payload(plan[sent].from, plan[sent].tag, plan[sent].number, plan[sent].bytes)));
        ++sent;
        break;
      case 1:
        if (received == receives.size()) break;
        receives[received].operation =
            &world.Recv(receives[received].at, receives[received].from, receives[received].tag, 3000);
        ++received;
        break;
      default: world.Poll(static_cast<Rank>(random.Below(static_cast<std::uint64_t>(ranks))));
    }
  }
  world.Finish();

  for (const TestOperation* one : sends) CHECK(one->good());
  std::map<std::tuple<Rank, Rank, Tag>, std::vector<std::size_t>> due;  // sizes, in the order of sending
  for (const Planned& one : plan) due[{one.from, one.to, one.tag}].push_back(one.bytes);
  std::map<std::tuple<Rank, Rank, Tag>, int> next;
  for (const Receive& one : receives) {
    REQUIRE(one.operation->good());
    const Message& message = one.operation->operation.message;
    CHECK((one.from == kAnyRank || one.from == message.source));
    CHECK(one.tag == message.tag);
    const std::tuple<Rank, Rank, Tag> kind{message.source, one.at, message.tag};
    const int number = next[kind]++;
    REQUIRE(static_cast<std::size_t>(number) < due[kind].size());
    CHECK(one.operation->text() ==
          Payload(message.source, message.tag, number, due[kind][static_cast<std::size_t>(number)]));
    CHECK(one.operation->rest_untouched());
  }
  for (Rank r = 0; r < ranks; ++r) {
    CHECK(world.engine(r).held_messages() == 0);
    CHECK_FALSE(world.failure(r));
  }
}

TEST_CASE("random traffic with many tags arrives as the model says, in every awkward mode") {
  for (const MessageMode& mode : AwkwardMessageModes()) {
    CAPTURE(mode.name);
    const int seeds = mode.network.slice_bytes == 1 ? 5 : 40;
    for (int seed = 1; seed <= seeds; ++seed) RunTraffic(mode.network, static_cast<std::uint64_t>(seed));
  }
}

TEST_CASE("receives of any rank and any tag take everything, each sender's tags in order") {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    CAPTURE(seed);
    MessageWorld world({.ranks = 5,
                        .limits = {.eager_message_bytes = 100, .eager_credit_bytes = 512, .max_announced_messages = 4},
                        .seed = seed});
    std::map<std::pair<Rank, Tag>, int> sent, seen;
    int open = 0;
    for (int i = 0; i < 80; ++i) {
      const auto from = static_cast<Rank>(1 + world.random().Below(4));
      const auto tag = static_cast<Tag>(world.random().Below(3));
      world.Send(from, 0, tag, Payload(from, tag, sent[{from, tag}]++, world.random().Below(300)));
      ++open;
      for (int polls = static_cast<int>(world.random().Below(6)); polls > 0; --polls)
        world.Poll(static_cast<Rank>(world.random().Below(5)));
      while (open > 0 && world.random().Chance(0.5)) {
        TestOperation& got = world.Recv(0, kAnyRank, kAnyTag, 300);
        world.Until("received", [&] { return got.final(); });
        --open;
        const Message& message = got.operation.message;
        CHECK(got.text() == Payload(message.source, message.tag, seen[{message.source, message.tag}]++,
                                    static_cast<std::size_t>(message.count)));
      }
    }
  }
}

}  // namespace traffic_test
}  // namespace rondo
