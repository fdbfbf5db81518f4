// Tests the proxy over real sockets: the effect of each function at both ends, and that the effect was counted.
// flow_test.cc has the effects of toxics on a stream in detail. The tests here are about sockets, ends and resets,
// listeners, and toxics that are added and removed.
#include "transport/fault/proxy.h"

#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/faults/sockets/sockets.h"
#include "transport/fault/toxic.h"

namespace rondo::fault {
namespace proxy_test {

using namespace std::chrono_literals;

// A host, a proxy in front of it, and connections through the proxy.
struct Scene {
  explicit Scene(ProxyOptions options = {}) {
    auto started = Proxy::Start(std::move(options));
    REQUIRE_MESSAGE(started, started.error().ToString());
    proxy = *started;
    const auto listening = proxy->Listen({.name = "host", .to = host.address()});
    REQUIRE_MESSAGE(listening, listening.error().ToString());
    port = *listening;
  }
  // Returns both ends of a new connection: the client's end, and the end that the host accepted.
  std::pair<Talker, Talker> Connect() {
    Talker caller = Talker::To(port);
    REQUIRE(caller.error() == 0);
    return {std::move(caller), host.Accept()};
  }
  ToxicHandle Add(Scope scope, Toxic toxic) {
    auto handle = proxy->Add(std::move(scope), toxic);
    REQUIRE_MESSAGE(handle, handle.error().ToString());
    return *handle;
  }

  Host host;
  std::shared_ptr<Proxy> proxy;
  std::uint16_t port = 0;
};

bool Fired(const ToxicHandle& toxic, std::uint64_t times = 1) { return toxic->fired.Await(times, kPatience); }

TEST_CASE(
    "without toxics a proxy cannot be distinguished from the host: bytes both ways, the end of each way by itself") {
  Scene scene;
  auto [caller, server] = scene.Connect();
  const std::string much(3 << 20, 'm');  // more bytes than all buffers on the way can hold
  std::thread sender([&caller = caller, &much] {
    CHECK(caller.Say(much));
    caller.SayEnd();
  });
  CHECK(server.ReceiveAll() == much);
  CHECK(server.error() == 0);
  sender.join();
  CHECK(server.Say("after your end"));
  CHECK(caller.Receive(14) == "after your end");
  server.SayEnd();
  CHECK(caller.ReceiveAll().empty());
  CHECK(caller.error() == 0);
  CHECK(scene.proxy->counters().connections.load() == 1);
  CHECK(scene.proxy->counters().bytes.load() == much.size() + 14);
}

TEST_CASE("a reset by one end is a reset for the other") {
  Scene scene;
  for (const bool caller_resets : {true, false}) {
    auto [caller, server] = scene.Connect();
    REQUIRE(caller.Say("x"));
    REQUIRE(server.Receive(1) == "x");
    (caller_resets ? caller : server).Reset();
    Talker& other = caller_resets ? server : caller;
    CHECK(other.ReceiveAll().empty());
    CHECK(other.error() == ECONNRESET);
  }
}

TEST_CASE("where the target refuses, its caller is reset, and the proxy counts it") {
  Scene scene;
  scene.host.Close();
  Talker caller = Talker::To(scene.port);
  CHECK(caller.ReceiveAll().empty());
  CHECK(caller.error() == ECONNRESET);
  CHECK(scene.proxy->counters().unreachable.load() == 1);
}

TEST_CASE("latency delays an answer by as much") {
  Scene scene;
  const auto late = scene.Add({.listener = "host", .way = Way::kToServer}, Latency{.delay = 50ms, .jitter = 5ms});
  auto [caller, server] = scene.Connect();
  const auto before = std::chrono::steady_clock::now();
  REQUIRE(caller.Say("ping"));
  CHECK(server.Receive(4) == "ping");
  CHECK(std::chrono::steady_clock::now() - before >= 50ms);
  CHECK(late->fired.count() >= 1);
}

TEST_CASE("a bandwidth makes a transfer take its time") {
  Scene scene;
  const auto slow = scene.Add({.way = Way::kToClient}, Bandwidth{.bytes_per_second = 200'000});
  auto [caller, server] = scene.Connect();
  const auto before = std::chrono::steady_clock::now();
  REQUIRE(server.Say(std::string(20'000, 's')));
  CHECK(caller.Receive(20'000) == std::string(20'000, 's'));
  CHECK(std::chrono::steady_clock::now() - before >= 90ms);
  CHECK(slow->fired.count() >= 10);
}

TEST_CASE("slow_close holds the end back, the bytes before it not") {
  Scene scene;
  const auto slow = scene.Add({.way = Way::kToServer}, SlowClose{.delay = 80ms});
  auto [caller, server] = scene.Connect();
  REQUIRE(caller.Say("bye"));
  caller.SayEnd();
  CHECK(server.Receive(3) == "bye");
  CHECK(Fired(slow));
  CHECK(server.ReceivesNothing());
  CHECK(server.ReceiveAll().empty());
  CHECK(server.error() == 0);
}

TEST_CASE("a black hole one way lets the other way live, without any error; healed, all of it arrives") {
  Scene scene;
  const auto hole = scene.Add({.way = Way::kToServer, .from_byte = 2}, Timeout{});
  auto [caller, server] = scene.Connect();
  REQUIRE(caller.Say("abcdef"));
  CHECK(server.Receive(2) == "ab");
  CHECK(Fired(hole));
  CHECK(server.ReceivesNothing());
  REQUIRE(server.Say("still here"));
  CHECK(caller.Receive(10) == "still here");
  scene.proxy->Remove(hole);
  CHECK(server.Receive(4) == "cdef");
}

TEST_CASE("a black hole both ways hides even that an end has died") {
  Scene scene;
  const auto hole = scene.Add({.from_byte = 1}, Timeout{});
  auto [caller, server] = scene.Connect();
  REQUIRE(caller.Say("x"));
  REQUIRE(server.Receive(1) == "x");
  caller.Reset();
  CHECK(Fired(hole));
  CHECK(server.ReceivesNothing());
}

TEST_CASE("reset_peer resets both ends, at once or after so many bytes") {
  for (const std::size_t after : {0, 5}) {
    Scene scene;
    const auto cut = scene.Add({.way = Way::kToServer, .from_byte = after}, ResetPeer{});
    auto [caller, server] = scene.Connect();
    caller.Say("0123456789");  // may fail, because the connection may have been reset already
    const std::string received = server.ReceiveAll();
    CHECK(received == std::string("0123456789").substr(0, received.size()));
    CHECK(received.size() <= after);  // a reset destroys unread bytes
    CHECK(server.error() == ECONNRESET);
    CHECK(caller.ReceiveAll().empty());
    CHECK(caller.error() == ECONNRESET);
    CHECK(cut->fired.count() == 1);
  }
}

TEST_CASE("a slicer's bytes come one by one, all of them and in order") {
  Scene scene;
  const auto slicer = scene.Add({.way = Way::kToServer}, Slicer{.slice_bytes = 1, .pause = 1ms});
  auto [caller, server] = scene.Connect();
  const std::string text = "one byte at a time";
  REQUIRE(caller.Say(text));
  std::string received;
  std::size_t longest = 0;
  while (received.size() < text.size()) {
    const std::string some = server.ReceiveSome();
    REQUIRE_FALSE(some.empty());
    longest = std::max(longest, some.size());
    received += some;
  }
  CHECK(received == text);
  CHECK(longest < text.size());
  CHECK(slicer->fired.count() >= text.size() / 2);
}

TEST_CASE("limit_data ends a way after exactly so many bytes, and the other way goes on") {
  Scene scene;
  const auto limit = scene.Add({.way = Way::kToServer, .from_byte = 4}, LimitData{});
  auto [caller, server] = scene.Connect();
  REQUIRE(caller.Say("truncated"));
  CHECK(server.ReceiveAll() == "trun");
  CHECK(server.error() == 0);
  CHECK(limit->fired.count() == 1);
  REQUIRE(caller.Say(" and more, which is lost"));
  REQUIRE(server.Say("what?"));
  CHECK(caller.Receive(5) == "what?");
}

TEST_CASE("corrupt flips the bit it was asked to") {
  Scene scene;
  const auto flip = scene.Add({.way = Way::kToClient, .from_byte = 3}, Corrupt{.bit = 5});
  auto [caller, server] = scene.Connect();
  REQUIRE(server.Say("abcdef"));
  CHECK(caller.Receive(6) == "abcDef");
  CHECK(flip->fired.count() == 1);
}

TEST_CASE(
    "a listener that refuses is gone for callers, stays for those who are connected, and comes back at its port") {
  Scene scene;
  auto [caller, server] = scene.Connect();
  REQUIRE(scene.proxy->Refuse("host"));
  CHECK(scene.proxy->counters().refused.count() == 1);
  CHECK(Talker::To(scene.port).error() == ECONNREFUSED);
  REQUIRE(caller.Say("we go on"));
  CHECK(server.Receive(8) == "we go on");
  REQUIRE(scene.proxy->AcceptAgain("host"));
  auto [late_caller, late_server] = scene.Connect();
  REQUIRE(late_caller.Say("hello"));
  CHECK(late_server.Receive(5) == "hello");
}

TEST_CASE("while a listener is paused nothing passes and no client is taken; then everything goes on") {
  Scene scene;
  auto [caller, server] = scene.Connect();
  REQUIRE(scene.proxy->Pause("host"));
  Talker late = Talker::To(scene.port);  // succeeds, because the kernel accepts the connection
  CHECK(late.error() == 0);
  REQUIRE(late.Say("late"));
  REQUIRE(caller.Say("early"));
  CHECK(scene.proxy->counters().paused.Await(2, kPatience));
  CHECK(server.ReceivesNothing());
  REQUIRE(scene.proxy->Resume("host"));
  CHECK(server.Receive(5) == "early");
  CHECK(scene.host.Accept().Receive(4) == "late");
}

TEST_CASE("a toxic may be meant for the k-th connection alone") {
  Scene scene;
  const auto cut = scene.Add({.listener = "host", .connection = 2}, ResetPeer{});
  for (int number = 1; number <= 3; ++number) {
    CAPTURE(number);
    auto [caller, server] = scene.Connect();
    if (number == 2) {
      CHECK(caller.ReceiveAll().empty());
      CHECK(caller.error() == ECONNRESET);
    } else {
      REQUIRE(caller.Say("x"));
      CHECK(server.Receive(1) == "x");
    }
  }
  CHECK(cut->fired.count() == 1);
}

TEST_CASE("toxics come and go while bytes flow") {
  Scene scene;
  auto [caller, server] = scene.Connect();
  REQUIRE(caller.Say("a"));
  CHECK(server.Receive(1) == "a");
  const auto hole = scene.Add({}, Timeout{});
  REQUIRE(caller.Say("b"));
  CHECK(Fired(hole));
  CHECK(server.ReceivesNothing());
  scene.proxy->RemoveAll();
  CHECK(server.Receive(1) == "b");
  const auto cut = scene.Add({}, ResetPeer{});
  CHECK(server.ReceiveAll().empty());
  CHECK(server.error() == ECONNRESET);
  CHECK(cut->fired.count() == 1);
}

TEST_CASE("full buffers hold up the sender, not the proxy") {
  Scene scene(ProxyOptions{.buffer_bytes = 1000});
  auto [full_caller, full_server] = scene.Connect();
  std::thread sender([&full_caller = full_caller] { CHECK(full_caller.Say(std::string(20 << 20, 'f'))); });
  auto [caller, server] = scene.Connect();
  for (int i = 0; i < 100; ++i) {
    REQUIRE(caller.Say("x"));
    REQUIRE(server.Receive(1) == "x");
  }
  CHECK(full_server.Receive(20 << 20).size() == 20 << 20);
  sender.join();
}

TEST_CASE("one connection too many is reset and counted") {
  Scene scene(ProxyOptions{.max_connections = 1});
  auto [caller, server] = scene.Connect();
  Talker second = Talker::To(scene.port);
  CHECK(second.ReceiveAll().empty());
  CHECK(second.error() == ECONNRESET);
  CHECK(scene.proxy->counters().beyond_limit.load() == 1);
  REQUIRE(caller.Say("x"));
  CHECK(server.Receive(1) == "x");
}

TEST_CASE("when the proxy goes, its connections are reset") {
  std::optional<Scene> scene(std::in_place);
  auto [caller, server] = scene->Connect();
  REQUIRE(caller.Say("x"));
  REQUIRE(server.Receive(1) == "x");
  scene->proxy.reset();
  CHECK(caller.ReceiveAll().empty());
  CHECK(caller.error() == ECONNRESET);
}

TEST_CASE("wrong arguments are refused by name") {
  Scene scene;
  const auto code = [](const auto& result) {
    REQUIRE(!result);
    return result.error().code();
  };
  for (const char* to :
       {"", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:0", "localhost:1", "127.0.0.1:99999"}) {
    CAPTURE(to);
    const auto listening = scene.proxy->Listen({.to = to});
    CHECK(code(listening) == ErrorCode::kInvalidArgument);
    CHECK(listening.error().message().find(std::string(to).substr(0, std::string(to).find(':'))) != std::string::npos);
  }
  CHECK(code(scene.proxy->Listen({.at = "192.0.2.1", .to = "127.0.0.1:1"})) == ErrorCode::kInvalidArgument);
  const auto unknown = scene.proxy->Add({.listener = "unknown"}, ResetPeer{});
  CHECK(code(unknown) == ErrorCode::kInvalidArgument);
  CHECK(unknown.error().message().find("'unknown'") != std::string::npos);
  CHECK(code(scene.proxy->Add({}, Slicer{.slice_bytes = 0})) == ErrorCode::kInvalidArgument);
  CHECK(code(scene.proxy->Pause("unknown")) == ErrorCode::kInvalidArgument);
  CHECK(code(Proxy::Start({.buffer_bytes = 0})) == ErrorCode::kInvalidArgument);
}

TEST_CASE("IPv6 listens and is reached like IPv4") {
  const Fd listener(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  if (!listener || bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    MESSAGE("SKIP: a proxy over IPv6: this machine has no ::1");
    return;
  }
  REQUIRE(listen(listener.get(), 1) == 0);
  socklen_t bytes = sizeof address;
  REQUIRE(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &bytes) == 0);
  Scene scene;
  const auto port = scene.proxy->Listen({.at = "::1", .to = "[::1]:" + std::to_string(ntohs(address.sin6_port))});
  REQUIRE_MESSAGE(port, port.error().ToString());
  Fd fd(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  address.sin6_port = htons(*port);
  REQUIRE(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  Talker caller(std::move(fd));
  Talker server(Fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)));
  REQUIRE(caller.Say("six"));
  CHECK(server.Receive(3) == "six");
}

}  // namespace proxy_test
}  // namespace rondo::fault
