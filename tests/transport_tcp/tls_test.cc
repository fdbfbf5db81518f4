// Tests the TCP transport with TLS: which errors unauthenticated ranks get, how lanes send and end, and what an
// eavesdropper sees. The tests for every transport run over TLS, too (tests/conformance).
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <span>
#include <thread>

#include "base/access.h"
#include "base/wire.h"
#include "tests/support/tls_files.h"
#include "tests/transport_tcp/raw_client.h"
#include "tests/transport_tcp/world.h"
#include "transport/tcp/address.h"
#include "transport/tcp/handshake.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/tls_lane.h"

namespace rondo::test {
namespace tls_test {

using testing::PskOf;
using testing::TlsFiles;

std::shared_ptr<const TlsContext> Tls(const TlsOptions& options) {
  auto made = TlsContext::Make(options);
  REQUIRE_MESSAGE(made, made.error().ToString());
  return *made;
}

// Two ranks, each with its own TLS options. A rank without TLS options sends plain text.
World RanksWith(const TlsOptions& first, const TlsOptions& second,
                const std::function<void(int, TcpOptions&)>& adjust = nullptr) {
  World world(2, [&](int rank, TcpOptions& options) {
    options.tls = Tls(rank == 0 ? first : second);
    if (adjust) adjust(rank, options);
  });
  world.OpenAll();
  return world;
}

bool AreOpen(const Lane& a, const Lane& b) { return a.state() == LaneState::kOpen && b.state() == LaneState::kOpen; }

bool Has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// Checks that the lane of `rank` fails long before any deadline, and that its observer gets the same error. Returns the
// error.
Error RefusedOn(World& world, Rank rank) {
  const Rank peer = 1 - rank;
  Lane& lane = world.Open(rank, peer);
  REQUIRE(world.PollUntil([&] { return lane.state() == LaneState::kFailed; }));
  Error error = *lane.failure();
  CAPTURE(error.ToString());
  CHECK(error.code() == ErrorCode::kAuth);
  CHECK(error.culprit() == peer);
  REQUIRE(world.RecorderOf(rank).WaitForLost(1));
  CHECK(world.RecorderOf(rank).lost()[0].second.code() == ErrorCode::kAuth);
  return error;
}

bool Eventually(const std::function<bool()>& condition) {
  const SteadyClock clock;
  for (const TimePoint deadline = clock.Now() + kPatience; clock.Now() < deadline;) {
    if (condition()) return true;
    poll(nullptr, 0, 1);
  }
  return false;
}

TEST_CASE("the path to a peer says that it is TLS, and by what") {
  TlsFiles files;
  const TlsOptions both[] = {PskOf('k'), files.Member("ca", "rank")};
  for (const TlsOptions& options : both) {
    World world = RanksWith(options, options);
    Lane& a = world.Open(0, 1);
    Lane& b = world.Open(1, 0);
    REQUIRE(world.PollUntil([&] { return AreOpen(a, b); }));
    const std::string path = world[0].DescribePeer(1);
    CAPTURE(path);
    CHECK(Has(path, std::string("TLS 1.3, TLS_AES_128_GCM_SHA256, ") + std::string(Name(options.mode))));
  }
}

TEST_CASE("ranks whose keys differ refuse each other at once, whichever connects") {
  for (const Rank client : {0, 1}) {
    World world = RanksWith(PskOf('k'), PskOf('j'));
    CHECK(Has(RefusedOn(world, client).message(), "refused the pre-shared key"));
  }
}

TEST_CASE("a rank in the clear and one with TLS refuse each other at once, whichever connects") {
  for (const Rank with_tls : {0, 1}) {
    CAPTURE(with_tls);
    World world = with_tls == 0 ? RanksWith(PskOf('k'), {}) : RanksWith({}, PskOf('k'));
    CHECK(Has(RefusedOn(world, with_tls).message(), "does not speak TLS, but this process does"));
    World again = with_tls == 0 ? RanksWith(PskOf('k'), {}) : RanksWith({}, PskOf('k'));
    CHECK(Has(RefusedOn(again, 1 - with_tls).message(), "requires TLS, but the client does not use it"));
  }
}

TEST_CASE("an expired certificate is refused by name and date on the side that checks it, and reported to the other") {
  TlsFiles files;
  const TlsOptions fresh = files.Member("ca", "fresh");
  const TlsOptions old = files.Member("ca", "old", {.from = -std::chrono::hours(9), .until = -std::chrono::hours(1)});
  World server = RanksWith(fresh, old);
  CHECK(Has(RefusedOn(server, 0).message(), "'/CN=old': it expired on "));
  World client = RanksWith(fresh, old);
  CHECK(Has(RefusedOn(client, 1).message(), "refused this process's certificate: it has expired"));
}

TEST_CASE(
    "foreign clients at a TLS port get no answer of ours and do not disturb the job; what began TLS counts as "
    "auth_failed") {
  const auto counters = std::make_shared<TcpCounters>();
  World world = RanksWith(PskOf('k'), PskOf('k'), [&](int rank, TcpOptions& options) {
    if (rank == 0) options.counters = counters;
  });
  {
    const Fd browser = Call(*world.transports[0]);
    const std::string said = "GET / HTTP/1.1\r\n\r\n";
    REQUIRE(send(browser.get(), said.data(), said.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(said.size()));
    CHECK(Listen(browser).empty());
    CHECK(counters->unknown == 1);
  }
  {
    auto session = TlsSession::Make(Tls(PskOf('x')), TlsSession::Role::kClient, "test");
    REQUIRE(session);
    REQUIRE((*session)->Handshake() == false);
    const Fd other = Call(*world.transports[0]);
    const Bytes hello = (*session)->Unsent();
    REQUIRE(send(other.get(), hello.data(), hello.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(hello.size()));
    CHECK(Listen(other).starts_with("\x15\x03"));  // a TLS alert
    CHECK(counters->auth_failed == 1);
  }
  Lane& a = world.Open(0, 1);
  Lane& b = world.Open(1, 0);
  CHECK(world.PollUntil([&] { return AreOpen(a, b); }));
}

TEST_CASE("with TLS and a token every connection that was taken ends in exactly one count") {
  const auto shared = std::make_shared<TcpCounters>();
  TcpCounters& counters = *shared;
  World world = RanksWith(PskOf('k'), PskOf('k'), [&](int rank, TcpOptions& options) {
    options.token = *JobToken::Make("secret", "the token");
    if (rank != 0) return;
    options.counters = shared;
    options.instance = "me";
  });
  const Transport& server = *world.transports[0];
  const auto say = [](const Fd& fd, Bytes bytes) {
    REQUIRE(send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
  };
  const auto session = [](char key) {
    auto made = TlsSession::Make(Tls(PskOf(key)), TlsSession::Role::kClient, "test");
    REQUIRE(made);
    return *std::move(made);
  };
  tcp::Hello hello;
  hello.job = "test";
  hello.to_instance = "me";

  { const Fd gone_at_once = Call(server); }
  const Fd browser = Call(server);
  say(browser, AsBytes("GET / HTTP/1.1\r\n\r\n"));
  CHECK(Listen(browser).empty());
  CHECK(Eventually([&] { return counters.unknown == 2; }));

  {
    const auto tls = session('k');
    REQUIRE(tls->Handshake() == false);
    const Fd leaves_in_the_handshake = Call(server);
    say(leaves_in_the_handshake, tls->Unsent().first(100));
  }
  CHECK(Eventually([&] { return counters.abandoned == 1; }));

  const Fd plain = Call(server);
  say(plain, tcp::Encode(hello));
  CHECK(Has(Listen(plain), "requires TLS"));
  CHECK(counters.auth_failed == 1);
  for (const auto& [key, words] : {std::pair{'j', ""}, std::pair{'k', "has a job token"}}) {
    const Fd fd = Call(server);
    Wire wire(session(key));
    REQUIRE(wire.SendAll(fd.get(), tcp::Encode(hello)));
    std::string received;
    char bytes[4096];
    for (ssize_t got; (got = wire.Receive(fd.get(), std::as_writable_bytes(std::span(bytes)))) != 0;) {
      if (got < 0 && errno != EAGAIN) break;
      if (got < 0) {
        pollfd entry{.fd = fd.get(), .events = POLLIN, .revents = 0};
        poll(&entry, 1, -1);
      } else {
        received.append(bytes, static_cast<std::size_t>(got));
      }
    }
    CHECK_MESSAGE(Has(received, words), received);
  }
  CHECK(counters.auth_failed == 3);

  Lane& a = world.Open(0, 1);
  Lane& b = world.Open(1, 0);
  CHECK(world.PollUntil([&] { return AreOpen(a, b); }));
  CHECK(Eventually([&] {
    return counters.accepted == counters.established + counters.unknown + counters.refused + counters.auth_failed +
                                    counters.evicted + counters.retry_requested + counters.abandoned;
  }));
  CHECK(counters.unknown == 2);
  CHECK(counters.auth_failed == 3);
}

TEST_CASE("who begins TLS and falls silent is dropped when the handshake's time is over") {
  const auto counters = std::make_shared<TcpCounters>();
  World world = RanksWith(PskOf('k'), PskOf('k'), [&](int rank, TcpOptions& options) {
    if (rank != 0) return;
    options.counters = counters;
    options.handshake_timeout = std::chrono::milliseconds(50);
  });
  auto session = TlsSession::Make(Tls(PskOf('k')), TlsSession::Role::kClient, "test");
  REQUIRE(session);
  REQUIRE((*session)->Handshake() == false);
  const Fd slow = Call(*world.transports[0]);
  REQUIRE(send(slow.get(), (*session)->Unsent().data(), 20, MSG_NOSIGNAL) == 20);
  CHECK(Listen(slow).empty());
  CHECK(counters->unknown == 1);
}

TEST_CASE("what is accepted is released when the kernel has it, and a batch at most is not") {
  World world = RanksWith(PskOf('k'), PskOf('k'));
  Lane& a = world.Open(0, 1);
  Lane& b = world.Open(1, 0);
  REQUIRE(world.PollUntil([&] { return AreOpen(a, b); }));
  CHECK(world.transports[0]->capabilities().late_release);
  const auto data = Pattern(64 << 20, 1);
  std::size_t written = 0;
  // Writes until no buffer has room, because the peer reads nothing.
  for (int idle = 0; idle < 100 && written < data.size();) {
    const Bytes rest = Bytes(data).subspan(written);
    const std::size_t sent = a.Write({&rest, 1});
    written += sent;
    idle = sent == 0 ? idle + 1 : 0;
    CHECK(a.released() <= a.accepted());
    CHECK(a.accepted() - a.released() <= tcp::kTlsLaneBatchRecords * kTlsRecordBytes);
    world[0].Poll(SteadyClock().Now());
  }
  REQUIRE(written < data.size());
  std::vector<std::byte> got(written);
  std::size_t read = 0;
  CHECK(world.PollUntil([&] {
    for (std::size_t part; (part = b.ReadInto(MutableBytes(got).subspan(read))) != 0;) read += part;
    return read == written && a.released() == a.accepted();
  }));
  CHECK(std::memcmp(got.data(), data.data(), written) == 0);
}

TEST_CASE("an owner that has nothing left to write still sends what it gave, awake or asleep") {
  World world =
      RanksWith(PskOf('k'), PskOf('k'), [](int, TcpOptions& options) { options.socket_buffer_bytes = 16384; });
  Lane& a = world.Open(0, 1);
  Lane& b = world.Open(1, 0);
  REQUIRE(world.PollUntil([&] { return AreOpen(a, b); }));
  const auto data = Pattern(8 << 20, 2);
  std::size_t written = 0;
  for (int idle = 0; idle < 100;) {
    const Bytes rest = Bytes(data).subspan(written);
    const std::size_t sent = a.Write({&rest, 1});
    written += sent;
    idle = sent == 0 ? idle + 1 : 0;
  }
  REQUIRE(a.released() < a.accepted());
  std::thread reader([&] {
    std::vector<std::byte> got(written);
    std::size_t read = 0;
    CHECK(PollOneUntil(world[1], [&] {
      for (std::size_t part; (part = b.ReadInto(MutableBytes(got).subspan(read))) != 0;) read += part;
      return read == written;
    }));
  });
  CHECK(PollOneUntil(world[0], [&] { return a.released() == a.accepted(); }));
  reader.join();
}

TEST_CASE("a stream that ends without an announcement is a failed lane, one that was announced has ended") {
  for (const bool announced : {true, false}) {
    CAPTURE(announced);
    World world = RanksWith(PskOf('k'), PskOf('k'));
    Lane& a = world.Open(0, 1);
    Lane& b = world.Open(1, 0);
    REQUIRE(world.PollUntil([&] { return AreOpen(a, b); }));
    const Bytes piece = AsBytes("last bytes");
    REQUIRE(a.Write({&piece, 1}) == piece.size());
    REQUIRE(world.PollUntil([&] { return a.released() == a.accepted(); }));
    for (const Rank rank : {0, 1}) REQUIRE(world[rank].SendControl(1 - rank, {ControlKind::kGoodbye, ""}));
    REQUIRE(world.RecorderOf(0).WaitForMessages(1));
    REQUIRE(world.RecorderOf(1).WaitForMessages(1));
    if (announced) world[0].ShutDown();
    world.endpoints[0].reset();
    REQUIRE(world.PollUntil([&] { return b.Peek(100).size() == piece.size(); }));
    b.Consume(piece.size());
    REQUIRE(world.PollUntil([&] { return b.state() != LaneState::kOpen; }));
    CHECK(b.state() == (announced ? LaneState::kEnded : LaneState::kFailed));
    if (!announced) {
      CAPTURE(b.failure()->ToString());
      CHECK(b.failure()->code() == ErrorCode::kConnectionReset);
      CHECK(b.failure()->culprit() == 0);
    }
    CHECK(world.RecorderOf(1).lost().empty());
  }
}

TEST_CASE("lanes that were to be two sockets are one with TLS") {
  World world = RanksWith(PskOf('k'), PskOf('k'), [](int, TcpOptions& options) { options.split_local_lanes = true; });
  Lane& a = world.Open(0, 1);
  Lane& b = world.Open(1, 0);
  REQUIRE(world.PollUntil([&] { return AreOpen(a, b); }));
  CHECK(!Has(world[0].DescribePeer(1), "two sockets"));
}

TEST_CASE("both calling at once ends in one connection") {
  for (int i = 0; i < 30; ++i) {
    World world = RanksWith(PskOf('k'), PskOf('k'));
    Lane& a = world.Open(0, 1);
    Lane& b = world.Open(1, 0);
    REQUIRE(world.PollUntil([&] { return AreOpen(a, b); }));
    CHECK(world.RecorderOf(0).lost().empty());
    CHECK(world.RecorderOf(1).lost().empty());
  }
}

}  // namespace tls_test
}  // namespace rondo::test
