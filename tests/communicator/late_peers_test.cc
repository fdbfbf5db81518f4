// Ranks that leave before a peer is connected to them: the peer gets the error that it would have got over a
// connection.
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/communicator/kept_goodbyes.h"
#include "collectives/connect.h"
#include "rendezvous/memory_store.h"
#include "rendezvous/tcp_store_server.h"
#include "tests/support/own_places.h"
#include "tests/support/ranks.h"

namespace rondo {
namespace late_peers_test {

using namespace std::chrono_literals;

constexpr char kRefusal[] = "allreduce: TypeError: no array";
constexpr char kLeftWithRefusal[] = "mismatch: rank 2 refused a call of its program (allreduce: TypeError: no array)";

Status SumByRing(Communicator& communicator) {
  float value = 1;
  return communicator.AllReduce(&value, &value, 1, DataType::kFloat32, ReduceOp::kSum, {.algorithm = Algorithm::kRing});
}

bool Begins(const std::string& text, const std::string& with) { return text.rfind(with, 0) == 0; }
bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class Notes final : public KeptGoodbyes {
 public:
  enum class Answer : std::uint8_t { kRight, kNothing, kError };

  explicit Notes(Answer answer = Answer::kRight) : answer_(answer) {}
  std::string Describe() const override { return "the notes"; }
  Status Keep(std::uint64_t communicator, Rank rank, const std::string& goodbye) override {
    const std::lock_guard lock(mutex_);
    kept_[{communicator, rank}] = goodbye;
    return {};
  }
  Result<std::optional<std::string>> Find(std::uint64_t communicator, Rank rank) override {
    const std::lock_guard lock(mutex_);
    ++questions_;
    if (answer_ == Answer::kError) return Fail(ErrorCode::kStoreLost, "burnt");
    const auto found = kept_.find({communicator, rank});
    if (answer_ == Answer::kNothing || found == kept_.end()) return std::nullopt;
    return found->second;
  }
  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return kept_.size();
  }
  int questions() const {
    const std::lock_guard lock(mutex_);
    return questions_;
  }

 private:
  const Answer answer_;
  mutable std::mutex mutex_;
  int questions_ = 0;
  std::map<std::pair<std::uint64_t, Rank>, std::string> kept_;
};

std::unique_ptr<Communicator> Make(const InprocNetwork& network, Rank rank, std::shared_ptr<KeptGoodbyes> notes = {}) {
  CommunicatorOptions options;
  options.rank = rank;
  options.peers = IdentitiesOf(network);
  options.transport = network.transport(rank);
  options.timeout = 20s;
  options.kept_goodbyes = std::move(notes);
  auto made = Communicator::Create(std::move(options));
  REQUIRE(made);
  return *std::move(made);
}

// Ranks 0 and 1 call `body`, each on a separate thread. Returns the outcomes as text.
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
  std::vector<float> values(1 << 20);  // so large that a lane does not accept all of it before the peer reads
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
  failed->Abort("the test asked for it");
  failed.reset();
  auto late = Make(network, 0);
  const std::string text = TextOf(SumByRing(*late));
  CAPTURE(text);
  CHECK(Begins(text, "peer_aborted: rank 1 aborted: the test asked for it"));
}

// Returns the outcomes of ranks 0 and 1 if the process of rank 2 has ended before they connect to it.
std::array<std::string, 2> AfterTheProcess(const std::shared_ptr<Notes>& notes) {
  InprocNetwork network(3);
  auto leaver = Make(network, 2, notes);
  leaver->NoteRefusal(kRefusal);
  CHECK(TextOf(leaver->Leave(0ms)) == "ok");
  network.Kill(2);
  leaver.reset();
  std::array others{Make(network, 0, notes), Make(network, 1, notes)};
  return OnTheOthers(others, SumByRing);
}

TEST_CASE("where the process is gone its goodbye is found where it was kept") {
  for (const std::string& text : AfterTheProcess(std::make_shared<Notes>())) {
    CAPTURE(text);
    CHECK(Begins(text, kLeftWithRefusal));
  }
}

TEST_CASE("without a kept goodbye the rank is lost, and the error says what is known of that") {
  for (const std::string& text : AfterTheProcess(nullptr)) CHECK_MESSAGE(Begins(text, "peer_lost: rank 2 died"), text);
  for (const std::string& text : AfterTheProcess(std::make_shared<Notes>(Notes::Answer::kNothing)))
    CHECK_MESSAGE((Begins(text, "peer_lost: rank 2 died") && Has(text, ". It has left no goodbye in the notes")), text);
  for (const std::string& text : AfterTheProcess(std::make_shared<Notes>(Notes::Answer::kError)))
    CHECK_MESSAGE(Has(text, ". Whether it has left a goodbye in the notes is not known: burnt"), text);
}

TEST_CASE("a place of goodbyes that does not answer is asked once, however many peers have ended") {
  constexpr Rank kRanks = 5;
  InprocNetwork network(kRanks);
  for (Rank rank = 1; rank < kRanks; ++rank) {
    CHECK(Make(network, rank)->Leave(0ms));
    network.Kill(rank);
  }
  const auto notes = std::make_shared<Notes>(Notes::Answer::kError);
  auto late = Make(network, 0, notes);
  float value = 1;
  const std::string text =
      TextOf(late->AllReduce(&value, &value, 1, DataType::kFloat32, ReduceOp::kSum, {.algorithm = Algorithm::kDirect}));
  CHECK_MESSAGE(Has(text, "is not known: burnt"), text);
  CHECK(notes->questions() == 1);
}

TEST_CASE("a message to a rank whose process is gone fails by itself where a goodbye was kept") {
  InprocNetwork network(2);
  const auto notes = std::make_shared<Notes>();
  auto leaver = Make(network, 1, notes);
  CHECK(leaver->Leave(0ms));
  network.Kill(1);
  leaver.reset();
  auto other = Make(network, 0, notes);
  const std::vector<float> large(1 << 20);
  const Status sent = other->Send(large.data(), large.size(), DataType::kFloat32, 1, 0);
  CHECK_MESSAGE(Begins(TextOf(sent), "closed: "), TextOf(sent));
  CHECK_FALSE(other->failure());
}

TEST_CASE("ranks whose goodbyes have reached all others keep none") {
  const auto notes = std::make_shared<Notes>();
  InprocNetwork network(2);
  OnRanks(
      network, [](Communicator& communicator) { CHECK((communicator.Barrier() && communicator.Close())); },
      [&](CommunicatorOptions& options) { options.kept_goodbyes = notes; });
  CHECK(notes->size() == 0);
}

// Returns the outcomes of ranks 0 and 1 after rank 2 has refused a call and left, and its transport has ended. `adjust`
// changes the options with which each rank connects.
std::array<std::string, 2> AfterTheTransport(const std::function<void(ConnectOptions&)>& adjust) {
  std::array<std::unique_ptr<Communicator>, 3> ranks;
  std::array<std::thread, 3> threads;
  for (Rank rank = 0; rank < 3; ++rank)
    threads[static_cast<std::size_t>(rank)] = std::thread([&, rank] {
      ConnectOptions options;
      options.rank = rank;
      options.world_size = 3;
      options.timeout = 20s;
      options.path = Path::kTcp;
      options.addresses = {"127.0.0.1"};
      adjust(options);
      auto made = Connect(options);
      if (made) ranks[static_cast<std::size_t>(rank)] = *std::move(made);
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& rank : ranks) REQUIRE(rank != nullptr);
  ranks[2]->NoteRefusal(kRefusal);
  CHECK(TextOf(ranks[2]->Leave(0ms)) == "ok");
  ranks[2].reset();
  std::array others{std::move(ranks[0]), std::move(ranks[1])};
  return OnTheOthers(others, SumByRing);
}

TEST_CASE("ranks with a rendezvous in a store that outlives them leave their goodbyes there") {
  TcpStoreServer::Options serving;
  serving.host = "127.0.0.1";
  auto server = TcpStoreServer::Start(serving);
  REQUIRE(server);
  const auto memory = std::make_shared<MemoryStore>();
  const std::array<std::function<void(ConnectOptions&)>, 3> ways{
      [&](ConnectOptions& options) {
        options.rendezvous = (*server)->Describe();
        options.external_store = true;
        options.job = "external";
      },
      [&](ConnectOptions& options) { options.store = memory; },
      [&](ConnectOptions& options) {
        options.rendezvous = (*server)->Describe();
        options.external_store = true;
        options.job = "rebuildable";
        options.rebuildable = true;
      }};
  for (std::size_t way = 0; way < ways.size(); ++way) {
    CAPTURE(way);
    for (const std::string& text : AfterTheTransport(ways[way])) CHECK_MESSAGE(Begins(text, kLeftWithRefusal), text);
  }
}

TEST_CASE("where no store outlives the ranks the error does not say that a rank died which may have left") {
  const HeldPort port;
  const auto memory = std::make_shared<MemoryStore>();
  const std::array<std::function<void(ConnectOptions&)>, 2> ways{
      [&](ConnectOptions& options) { options.rendezvous = port.StoreUrl(); },
      [&](ConnectOptions& options) {
        options.store = memory;
        options.keeps_store = false;
      }};
  for (std::size_t way = 0; way < ways.size(); ++way) {
    CAPTURE(way);
    for (const std::string& text : AfterTheTransport(ways[way])) {
      CAPTURE(text);
      CHECK(Begins(text, "peer_lost: rank 2 "));
      CHECK(Has(text, "ended (normally or not) before this rank connected to it"));
      CHECK_FALSE(Has(text, "died"));
    }
  }
}

}  // namespace late_peers_test
}  // namespace rondo
