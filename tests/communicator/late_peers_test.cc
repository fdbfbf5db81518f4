// Ranks that have left before a peer is connected to them: the peer gets what it would have got with a connection.
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/communicator.h"
#include "tests/communicator/ranks.h"

namespace rondo {
namespace late_peers_test {

using namespace std::chrono_literals;

constexpr char kRefusal[] = "allreduce: TypeError: no array";
constexpr char kLeftWithRefusal[] = "mismatch: rank 2 refused its call and closed (allreduce: TypeError: no array)";

Status SumByRing(Communicator& communicator) {
  float value = 1;
  return communicator.AllReduce(&value, &value, 1, DataType::kFloat32, ReduceOp::kSum, {.algorithm = Algorithm::kRing});
}

bool Begins(const std::string& text, const std::string& with) { return text.rfind(with, 0) == 0; }
bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::unique_ptr<Communicator> Make(const InprocNetwork& network, Rank rank) {
  CommunicatorOptions options;
  options.rank = rank;
  options.peers = IdentitiesOf(network);
  options.transport = network.transport(rank);
  options.timeout = 20s;
  auto made = Communicator::Create(std::move(options));
  REQUIRE(made);
  return *std::move(made);
}

// Ranks 0 and 1 call `body`, on a thread each; what became of it.
std::array<std::string, 2> OnTheOthers(std::array<std::unique_ptr<Communicator>, 2>& others,
                                       const std::function<Status(Communicator&)>& body) {
  std::array<std::string, 2> texts;
  std::array<std::thread, 2> threads;
  for (std::size_t rank = 0; rank < 2; ++rank)
    threads[rank] = std::thread([&, rank] { texts[rank] = TextOf(body(*others[rank])); });
  for (std::thread& thread : threads) thread.join();
  return texts;
}

TEST_CASE("a rank that left before it was connected gives its last operation and its refused call to later ranks") {
  for (const bool is_destroyed : {false, true}) {
    for (const bool refuses : {false, true}) {
      CAPTURE(is_destroyed);
      CAPTURE(refuses);
      const InprocNetwork network(3);
      auto leaver = Make(network, 2);
      if (refuses) leaver->NoteRefusal(kRefusal);
      CHECK(TextOf(leaver->Leave(0ms)) == "ok");
      if (is_destroyed) leaver.reset();
      std::array others{Make(network, 0), Make(network, 1)};
      for (const std::string& text : OnTheOthers(others, SumByRing)) {
        CAPTURE(text);
        CHECK(Begins(text, refuses ? kLeftWithRefusal : "closed: rank 2 closed after #0 (no operation), but rank "));
        CHECK(Has(text, "waits for it in #1 all_reduce float32 x 1 sum by ring"));
      }
    }
  }
}

TEST_CASE("a rank that only sends to one that has left gets the same error as one that waits for it") {
  const InprocNetwork network(3);
  auto leaver = Make(network, 2);
  leaver->NoteRefusal(kRefusal);
  CHECK(leaver->Leave(0ms));
  leaver.reset();
  auto root = Make(network, 0);
  std::vector<float> values(1 << 20);  // more than a lane takes ahead
  const std::string text = TextOf(root->Broadcast(values.data(), values.data(), values.size(), DataType::kFloat32, 0,
                                                  {.algorithm = Algorithm::kTree}));
  CAPTURE(text);
  CHECK(Begins(text, kLeftWithRefusal));
}

TEST_CASE("ranks that need nothing of one that has left go on, and a message to it fails by itself") {
  const InprocNetwork network(3);
  auto leaver = Make(network, 2);
  CHECK(leaver->Leave(0ms));
  leaver.reset();
  std::array others{Make(network, 0), Make(network, 1)};
  const auto texts = OnTheOthers(others, [](Communicator& communicator) -> Status {
    const std::vector<float> large(1 << 20);
    const Status to_left = communicator.Send(large.data(), large.size(), DataType::kFloat32, 2, 0);
    if (to_left || to_left.error().code() != ErrorCode::kClosed)
      return Fail(ErrorCode::kInternal, "{}", TextOf(to_left));
    const float mine = 1;
    float theirs = 0;
    const Rank other = 1 - communicator.rank();
    const auto got = communicator.SendRecv({.buffer = &mine, .count = 1, .to = other},
                                           {.buffer = &theirs, .count = 1, .from_or_any = other}, DataType::kFloat32);
    if (!got) return Fail(got.error());
    return {};
  });
  for (const std::string& text : texts) CHECK(text == "ok");
}

TEST_CASE("a late rank gets the reason of one that failed and ended before") {
  const InprocNetwork network(2);
  auto failed = Make(network, 1);
  failed->Abort("it was told to");
  failed.reset();
  auto late = Make(network, 0);
  const std::string text = TextOf(SumByRing(*late));
  CAPTURE(text);
  CHECK(Begins(text, "peer_aborted: rank 1 aborted: it was told to"));
}

}  // namespace late_peers_test
}  // namespace rondo
