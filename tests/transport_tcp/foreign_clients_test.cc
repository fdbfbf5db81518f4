// Tests that a job continues, no matter what connects to its port: port scanners, other protocols, silent clients,
// floods. It must also continue if the machine has no file descriptor left.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/access.h"
#include "tests/support/fault_row.h"
#include "tests/transport_tcp/raw_client.h"
#include "tests/transport_tcp/world.h"
#include "transport/tcp/address.h"
#include "transport/tcp/handshake.h"
#include "transport/tcp/interfaces.h"
#include "transport/tcp/socket.h"

namespace rondo::test {
namespace foreign_clients_test {

bool Eventually(const std::function<bool()>& condition) {
  const SteadyClock clock;
  for (const TimePoint deadline = clock.Now() + kPatience; clock.Now() < deadline;) {
    if (condition()) return true;
    poll(nullptr, 0, 1);
  }
  return false;
}

// Checks that two ranks with an open lane work correctly.
void CheckTheJobWorks(World& world, std::uint64_t communicator) {
  world.OpenRank(0, communicator);
  world.OpenRank(1, communicator);
  Lane& a = world.Open(0, 1);
  Lane& b = world.Open(1, 0);
  REQUIRE(world.PollUntil([&] { return a.state() == LaneState::kOpen && b.state() == LaneState::kOpen; }));
  const Bytes piece = AsBytes("still here");
  REQUIRE(a.Write({&piece, 1}) == piece.size());
  CHECK(world.PollUntil([&] { return b.Peek(piece.size()).size() == piece.size(); }));
  CHECK(world.RecorderOf(0).lost().empty());
  CHECK(world.RecorderOf(1).lost().empty());
  for (const Rank rank : {0, 1}) CHECK(world[rank].SendControl(1 - rank, {ControlKind::kGoodbye, ""}));
  const std::size_t received0 = world.RecorderOf(0).messages().size(),
                    received1 = world.RecorderOf(1).messages().size();
  CHECK(world.RecorderOf(0).WaitForMessages(received0 | 1));
  CHECK(world.RecorderOf(1).WaitForMessages(received1 | 1));
}

struct Watched {
  explicit Watched(const std::function<void(TcpOptions&)>& adjust = nullptr)
      : counters(std::make_shared<TcpCounters>()), world(2, [&](int rank, TcpOptions& options) {
          if (rank != 0) return;
          options.counters = counters;
          options.logger = &lines;
          if (adjust) adjust(options);
        }) {}
  const Transport& transport() const { return *world.transports[0]; }

  Lines lines;
  std::shared_ptr<TcpCounters> counters;
  World world;
};

TEST_CASE("other protocols are dropped without an answer of ours, counted and logged") {
  Watched watched;
  int foreign_clients = 0;
  Random random(3);
  std::string noise(300, '\0');
  for (char& c : noise) c = static_cast<char>(random.Next());
  for (const std::string& said :
       {std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), std::string("\x16\x03\x01\x02\x00\x01\x00", 7),
        std::string("SSH-2.0-x\r\n"), noise}) {
    const Fd fd = Call(watched.transport());
    Say(fd, AsBytes(said));
    // Only a TLS client gets an answer, which is an alert.
    CHECK(Listen(fd) == (said.starts_with("\x16\x03") ? ToText(kTlsNotSpoken) : ""));
    ++foreign_clients;
  }
  CHECK(watched.counters->unknown == static_cast<std::uint64_t>(foreign_clients));
  CHECK(watched.lines.Contains("does not speak Rondo"));
  CheckTheJobWorks(watched.world, 1);
  StateFault(23, watched.counters->unknown, "correct");
}

TEST_CASE("a client that connects and disconnects is dropped") {
  Watched watched;
  for (int i = 0; i < 200; ++i) Call(watched.transport());
  // If clients arrive faster than their disconnects are noticed, the oldest silent clients are evicted to make room.
  CHECK(Eventually([&] { return watched.counters->unknown + watched.counters->evicted == 200; }));
  CheckTheJobWorks(watched.world, 1);
}

TEST_CASE("silence and half a hello end after the handshake's time") {
  Watched watched([](TcpOptions& options) { options.handshake_timeout = std::chrono::milliseconds(50); });
  const Fd silent = Call(watched.transport());
  const Fd slow = Call(watched.transport());
  Say(slow, AsBytes("RONDOtc"));
  CHECK(Listen(silent).empty());
  CHECK(Listen(slow).empty());
  CHECK(watched.counters->unknown == 2);
}

TEST_CASE("a hello of impossible length is dropped") {
  Watched watched;
  const Fd fd = Call(watched.transport());
  auto hello = tcp::Encode(tcp::Hello{});
  StoreLittle(hello.data() + 10, std::uint16_t{65535});
  Say(fd, hello);
  CHECK(Listen(fd).empty());
  CHECK(watched.counters->unknown == 1);
}

TEST_CASE("another version of Rondo is refused with both versions") {
  Watched watched;
  const Fd fd = Call(watched.transport());
  auto hello = tcp::Encode(tcp::Hello{});
  StoreLittle(hello.data() + 8, std::uint16_t{77});
  Say(fd, hello);
  const std::string received = Listen(fd);
  tcp::MessageReader reader(tcp::MessageReader::Kind::kReply);
  for (Bytes rest = AsBytes(received); !rest.empty();) {
    const std::size_t part = std::min(rest.size(), reader.wanted());
    REQUIRE(part > 0);
    REQUIRE(reader.Feed(rest.first(part)));
    rest = rest.subspan(part);
  }
  const auto reply = reader.reply();
  REQUIRE(reply);
  CHECK(reply->code == ErrorCode::kVersionMismatch);
  CHECK(reply->text.find("version 77") != std::string::npos);
  CHECK(reply->text.find("version 2") != std::string::npos);
}

TEST_CASE("a flood of silent connections costs a bounded number of descriptors and does not keep peers out") {
  Watched watched;
  std::vector<Fd> flood;
  for (int i = 0; i < 500; ++i) flood.push_back(Call(watched.transport()));
  // The transport counts a connection as accepted before it evicts an older connection to make room.
  CHECK(Eventually([&] { return watched.counters->evicted == 500 - 64; }));
  CHECK(watched.counters->accepted == 500);
  CheckTheJobWorks(watched.world, 1);
  StateFault(23, watched.counters->evicted, "correct");
}

TEST_CASE("hellos for groups that no rank opens are held up to the limit and forgotten when the client goes") {
  Watched watched([](TcpOptions& options) {
    options.max_held_connections = 3;
    options.instance = "me";
  });
  tcp::Hello hello;
  hello.job = "test";
  hello.to_instance = "me";
  hello.communicator = 99;
  std::vector<Fd> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(Call(watched.transport()));
    Say(clients.back(), tcp::Encode(hello));
  }
  CHECK(Eventually([&] { return watched.counters->held == 3; }));
  const Fd one_more = Call(watched.transport());
  Say(one_more, tcp::Encode(hello));
  CHECK(Listen(one_more).find("3 connections wait") != std::string::npos);
  clients.clear();
  // When the transport has noticed the disconnects, there is room for new clients again.
  CHECK(Eventually([&] {
    clients.push_back(Call(watched.transport()));
    Say(clients.back(), tcp::Encode(hello));
    return watched.counters->held > 3;
  }));
}

TEST_CASE("every connection that was taken ends in exactly one count") {
  Watched watched([](TcpOptions& options) {
    options.max_held_connections = 1;
    options.instance = "me";
  });
  tcp::Hello ours;
  ours.job = "test";
  ours.to_instance = "me";
  ours.communicator = 99;
  tcp::Hello others = ours;
  others.job = "another";
  { const Fd gone_at_once = Call(watched.transport()); }
  const Fd browser = Call(watched.transport());
  Say(browser, AsBytes("GET / HTTP/1.1\r\n\r\n"));
  const Fd of_another_job = Call(watched.transport());
  Say(of_another_job, tcp::Encode(others));
  Fd held = Call(watched.transport());
  Say(held, tcp::Encode(ours));
  CHECK(Eventually([&] { return watched.counters->held == 1; }));
  const Fd beyond_the_limit = Call(watched.transport());
  Say(beyond_the_limit, tcp::Encode(ours));
  CHECK(Listen(beyond_the_limit).find("1 connections wait") != std::string::npos);
  held = {};
  TcpCounters& counters = *watched.counters;
  CHECK(Eventually([&] { return counters.unknown == 2 && counters.refused == 1 && counters.abandoned == 1; }));
  CHECK(counters.retry_requested == 1);
  CHECK(counters.accepted == 5);
  CheckTheJobWorks(watched.world, 1);
  CHECK(Eventually([&] {
    return counters.accepted == counters.established + counters.unknown + counters.refused + counters.auth_failed +
                                    counters.evicted + counters.retry_requested + counters.abandoned;
  }));
}

TEST_CASE(
    "every connection to a process with a token ends in exactly one count, also who goes when it is to prove itself") {
  Watched watched([](TcpOptions& options) {
    options.instance = "me";
    options.token = *JobToken::Make("secret", "the token");
  });
  tcp::Hello hello;
  hello.job = "test";
  hello.to_instance = "me";
  hello.nonce = Nonce{};
  Fd goes = Call(watched.transport());
  Say(goes, tcp::Encode(hello));
  char challenged = 0;
  REQUIRE(recv(goes.get(), &challenged, 1, 0) == 1);
  goes = {};
  const Fd guesses = Call(watched.transport());
  Say(guesses, tcp::Encode(hello));
  REQUIRE(recv(guesses.get(), &challenged, 1, 0) == 1);
  Say(guesses, tcp::Encode(TokenProof{}));
  const Fd has_none = Call(watched.transport());
  hello.nonce.reset();
  Say(has_none, tcp::Encode(hello));
  TcpCounters& counters = *watched.counters;
  CHECK(Eventually([&] { return counters.abandoned == 1 && counters.auth_failed == 2; }));
  CHECK(counters.accepted == 3);
  CHECK(counters.unknown + counters.refused + counters.evicted + counters.retry_requested + counters.established == 0);
}

// UBSan opens a pipe to check whether memory is readable, and reports an invalid object if that fails. So it cannot run
// without a free descriptor. The plain build and the thread-sanitizer build test the same code.
bool SanitizerNeedsDescriptors() {
#if defined(__SANITIZE_ADDRESS__)
  MESSAGE("SKIP: no descriptor left: the sanitizer needs some itself");
  return true;
#else
  return false;
#endif
}

// Uses up all descriptors of the process. The destructor frees them.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit low = before_;
    low.rlim_cur = 256;
    setrlimit(RLIMIT_NOFILE, &low);
    for (int fd; (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) taken_.emplace_back(fd);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
  std::vector<Fd> taken_;
};

TEST_CASE("a machine out of descriptors pauses accepting, says so, does not spin, and goes on when there are some") {
  if (SanitizerNeedsDescriptors()) return;
  Watched watched;
  Fd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));  // made before the descriptors are used up
  const RawSocketAddress raw = LoopbackOf(watched.transport());
  {
    const NoDescriptors nothing_left;
    REQUIRE(connect(client.get(), raw.get(), raw.bytes) == 0);
    REQUIRE(Eventually([&] { return watched.counters->accept_errors >= 2; }));
    const std::uint64_t before = watched.counters->accept_errors;
    poll(nullptr, 0, 250);
    CHECK(watched.counters->accept_errors - before <= 5);  // one attempt per 100 ms, not thousands
    // accepted with the descriptor that is reserved for sending the reason to a client
    CHECK(watched.counters->accepted == 1);
    CHECK(watched.lines.Contains(
        "it takes 1 more file descriptor, and 256 of 256 are open; raise the limit (ulimit -n)"));
  }
  CHECK(Eventually([&] { return watched.counters->accepted == 1; }));
  CheckTheJobWorks(watched.world, 1);
  StateFault(26, watched.counters->accept_errors, "correct");
}

TEST_CASE("a peer learns at once that there is no descriptor for it, and connects when there is one") {
  if (SanitizerNeedsDescriptors()) return;
  Watched watched([](TcpOptions& options) { options.instance = "me"; });
  tcp::Hello hello;
  hello.job = "test";
  hello.to_instance = "me";
  hello.communicator = 99;
  const RawSocketAddress raw = LoopbackOf(watched.transport());
  const Fd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));  // made before the descriptors are used up
  {
    const NoDescriptors nothing_left;
    REQUIRE(connect(client.get(), raw.get(), raw.bytes) == 0);
    Say(client, tcp::Encode(hello));
    CHECK(Listen(client).find(
              "it cannot accept connections: Too many open files: it takes 1 more file descriptor, and 256 "
              "of 256 are open; raise the limit (ulimit -n)") != std::string::npos);
    CHECK(watched.counters->retry_requested == 1);
  }
  CheckTheJobWorks(watched.world, 1);
}

TEST_CASE("a lane beyond the limit of descriptors is refused before anything is made, with need and limit") {
  if (SanitizerNeedsDescriptors()) return;
  World world(2);
  world.OpenAll();
  {
    const NoDescriptors nothing_left;
    const auto lane = world[0].Open(1, 0);
    REQUIRE_FALSE(lane);
    CHECK(lane.error().code() == ErrorCode::kResource);
    StateFault(26, 1, lane.error());
    CHECK(lane.error().message().find("needs 2 more file descriptors") != std::string::npos);
    CHECK(lane.error().message().find("256") != std::string::npos);
    const auto transport = MakeTcpTransport(LocalOptions());
    REQUIRE_FALSE(transport);
    const auto interfaces = tcp::EnumerateInterfaces();
    REQUIRE_FALSE(interfaces);
    for (const Error& error : {transport.error(), interfaces.error()}) {
      CHECK(error.code() == ErrorCode::kResource);
      CHECK_MESSAGE(error.message().find("of 256 are open") != std::string::npos, error.message());
    }
  }
  Lane& lane = world.Open(0, 1);
  CHECK(world.PollUntil([&] { return lane.state() == LaneState::kOpen; }));
}

}  // namespace foreign_clients_test
}  // namespace rondo::test
