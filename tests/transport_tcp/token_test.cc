// Tests the job token over real sockets: only a process with the token becomes a peer.
#include <sys/socket.h>

#include "base/access.h"
#include "tests/transport_tcp/raw_client.h"
#include "tests/transport_tcp/world.h"
#include "transport/tcp/address.h"
#include "transport/tcp/handshake.h"
#include "transport/tcp/socket.h"

namespace rondo::test {
namespace token_test {

std::shared_ptr<const JobToken> Token(std::string_view text) { return *JobToken::Make(text, "the token"); }

// Two ranks, each with a token. "" means no token.
struct Pair {
  Pair(std::string_view of_0, std::string_view of_1, Duration handshake_timeout = std::chrono::seconds(5))
      : world(2, [&](int rank, TcpOptions& options) {
          const std::string_view text = rank == 0 ? of_0 : of_1;
          if (!text.empty()) options.token = Token(text);
          options.instance = std::to_string(rank);
          options.addresses = {"127.0.0.1"};
          options.handshake_timeout = handshake_timeout;
          options.counters = counters[rank] = std::make_shared<TcpCounters>();
          options.logger = &lines[rank];
        }) {}

  std::shared_ptr<TcpCounters> counters[2];
  Lines lines[2];
  World world;
};

void CheckTheyWork(World& world) {
  Lane& a = world.Open(0, 1);
  Lane& b = world.Open(1, 0);
  REQUIRE(world.PollUntil([&] { return a.state() == LaneState::kOpen && b.state() == LaneState::kOpen; }));
  const Bytes piece = AsBytes("the first byte of a lane is the first one behind the handshake");
  REQUIRE(a.Write({&piece, 1}) == piece.size());
  CHECK(world.PollUntil([&] { return b.Peek(piece.size()).size() == piece.size(); }));
  std::string received(piece.size(), ' ');
  CHECK(b.ReadInto(std::as_writable_bytes(std::span(received))) == piece.size());
  CHECK(received == ToText(piece));
  for (const Rank rank : {0, 1}) CHECK(world[rank].SendControl(1 - rank, {ControlKind::kGoodbye, ""}));
  for (const Rank rank : {0, 1}) CHECK(world.RecorderOf(rank).WaitForMessages(1));
}

TEST_CASE("ranks that know the same token work as before, whichever connects first, and also if both do") {
  for (int round = 0; round < 20; ++round) {
    Pair pair("secret", "secret");
    pair.world.OpenAll();
    CheckTheyWork(pair.world);
    CHECK(pair.counters[0]->auth_failed + pair.counters[1]->auth_failed == 0);
  }
}

TEST_CASE("a client whose endpoint is not open yet is held and accepted with proofs, too") {
  Pair pair("secret", "secret");
  pair.world.OpenRank(1);
  Lane& lane = pair.world.Open(1, 0);
  REQUIRE(pair.world.PollUntil([&] { return pair.counters[0]->held == 1; }));
  pair.world.OpenRank(0);
  pair.world.Open(0, 1);
  CHECK(pair.world.PollUntil([&] { return lane.state() == LaneState::kOpen; }));
}

TEST_CASE("two sockets a lane are two handshakes") {
  World world(2, [](int, TcpOptions& options) {
    options.token = Token("secret");
    options.split_local_lanes = true;
  });
  world.OpenAll();
  CheckTheyWork(world);
}

// The error of the lane that `rank` opens to its peer.
Error ErrorOf(Pair& pair, Rank rank) {
  pair.world.OpenAll();
  Lane& lane = pair.world.Open(rank, 1 - rank);
  REQUIRE(pair.world.PollUntil([&] { return lane.state() == LaneState::kFailed; }));
  return *lane.failure();
}

TEST_CASE("a rank with another token, or with none, gets a typed error that says which side lacks what, and where") {
  struct Case {
    const char* client;
    const char* server;
    const char* words;
  };
  for (const Case& each :
       {Case{"Secret", "secret", "the client and this process (RONDO_TOKEN) have different job tokens"},
        Case{"", "secret", "this process has a job token (RONDO_TOKEN), and the client has none"},
        Case{"secret", "", "the client has a job token, and this process has none"}}) {
    for (const Rank rank : {0, 1}) {
      CAPTURE(each.words);
      CAPTURE(rank);
      Pair pair(rank == 0 ? each.client : each.server, rank == 0 ? each.server : each.client);
      const Error error = ErrorOf(pair, rank);
      CHECK(error.code() == ErrorCode::kAuth);
      CHECK(error.culprit() == 1 - rank);
      CHECK(error.details().host == LocalHostName());
      CHECK_MESSAGE(error.message().find(each.words) != std::string::npos, error.ToString());
      CHECK_MESSAGE(error.message().find("127.0.0.1:") != std::string::npos, error.ToString());
      CHECK(pair.world.PollUntil([&] { return pair.counters[1 - rank]->auth_failed >= 1; }));
      CHECK(pair.counters[1 - rank]->established == 0);
      // The log line is written after the refusal.
      CHECK(pair.world.PollUntil([&] { return pair.lines[1 - rank].Contains(each.words); }));
      for (const Lines& lines : pair.lines) CHECK_FALSE(lines.Contains("ecret"));
    }
  }
}

// ---- foreign clients ----

tcp::Reply ReadReply(const Fd& fd) {
  tcp::MessageReader reader(tcp::MessageReader::Kind::kReply);
  while (!reader.complete()) {
    std::byte byte;
    REQUIRE(recv(fd.get(), &byte, 1, 0) == 1);
    REQUIRE(reader.Feed({&byte, 1}));
  }
  const auto reply = reader.reply();
  REQUIRE(reply);
  return *reply;
}

bool Closes(const Fd& fd) {
  std::byte byte;
  return recv(fd.get(), &byte, 1, 0) <= 0;
}

// A hello with everything that an unauthenticated client may know about rank 1, which has not connected yet.
tcp::Hello HelloOfRank1() {
  tcp::Hello hello;
  hello.communicator = 1;
  hello.from = 1;
  hello.to = 0;
  hello.job = "test";
  hello.from_instance = "1";
  hello.to_instance = "0";
  return hello;
}

TEST_CASE(
    "an unauthenticated client that knows job, rank and instance gets the same reply as one that knows nothing, and "
    "the job "
    "goes on") {
  Pair pair("secret", "secret");
  pair.world.OpenAll();
  tcp::Hello right = HelloOfRank1();
  tcp::Hello wrong = right;
  wrong.job = "another";
  wrong.generation = 9;
  for (const bool with_nonce : {false, true}) {
    right.nonce = wrong.nonce = with_nonce ? std::optional(Nonce{}) : std::nullopt;
    std::vector<std::string> replies;
    for (const tcp::Hello& hello : {right, wrong}) {
      const Fd fd = Call(*pair.world.transports[0]);
      Say(fd, tcp::Encode(hello));
      tcp::Reply reply = ReadReply(fd);
      if (with_nonce) {
        REQUIRE(reply.verdict == tcp::Verdict::kProve);
        Say(fd, tcp::Encode(TokenProof{}));
        reply = ReadReply(fd);
      }
      CHECK(reply.verdict == tcp::Verdict::kRefused);
      CHECK(reply.code == ErrorCode::kAuth);
      CHECK_FALSE(reply.proof.has_value());
      replies.push_back(reply.text);
      CHECK(Closes(fd));
    }
    CHECK(replies[0] == replies[1]);
  }
  CHECK(pair.world.PollUntil([&] { return pair.counters[0]->auth_failed == 4; }));
  CHECK(pair.counters[0]->unknown == 0);
  CheckTheyWork(pair.world);
}

TEST_CASE("who is asked for a proof and says nothing is dropped after the handshake's time, and counted") {
  Pair pair("secret", "secret", std::chrono::seconds(1));
  tcp::Hello hello = HelloOfRank1();
  hello.nonce = Nonce{};
  const Fd fd = Call(*pair.world.transports[0]);
  Say(fd, tcp::Encode(hello));
  CHECK(ReadReply(fd).verdict == tcp::Verdict::kProve);
  CHECK(Closes(fd));
  CHECK(pair.world.PollUntil([&] { return pair.counters[0]->auth_failed == 1; }));
  CHECK(pair.counters[0]->unknown == 0);
}

TEST_CASE("a flood of clients who never prove anything costs a bounded number of descriptors and keeps no peer out") {
  Pair pair("secret", "secret");
  tcp::Hello hello = HelloOfRank1();
  hello.nonce = Nonce{};
  std::vector<Fd> flood;
  for (int i = 0; i < 300; ++i) {
    flood.push_back(Call(*pair.world.transports[0]));
    Say(flood.back(), tcp::Encode(hello));
  }
  CHECK(pair.world.PollUntil([&] { return pair.counters[0]->evicted == 300 - 64; }));
  pair.world.OpenAll();
  CheckTheyWork(pair.world);
}

}  // namespace token_test
}  // namespace rondo::test
