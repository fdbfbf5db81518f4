// Tests two or more ranks in one process, over real loopback sockets: connecting, streams, control messages, sleeping,
// and how connections end.
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <latch>
#include <thread>

#include "tests/support/fault_row.h"
#include "tests/support/own_places.h"
#include "tests/transport_tcp/raw_client.h"
#include "tests/transport_tcp/world.h"
#include "transport/tcp/address.h"
#include "transport/tcp/socket.h"

namespace rondo::test {
namespace endpoint_test {

bool IsOpen(const Lane& lane) { return lane.state() == LaneState::kOpen; }

// Writes all of `out` and reads all of `in` at the same time, as an engine would.
bool Exchange(Endpoint& endpoint, Lane& lane, Bytes out, MutableBytes in) {
  std::size_t written = 0, read = 0;
  return PollOneUntil(endpoint,
                      [&] {
                        bool moved = true;
                        while (moved && (written < out.size() || read < in.size())) {
                          const Bytes rest = out.subspan(written);
                          const std::size_t sent = rest.empty() ? 0 : lane.Write({&rest, 1});
                          const std::size_t got = lane.ReadInto(in.subspan(read));
                          written += sent;
                          read += got;
                          moved = sent + got != 0;
                          if (lane.state() == LaneState::kFailed) return true;
                        }
                        return written == out.size() && read == in.size();
                      }) &&
         lane.state() != LaneState::kFailed;
}

TEST_CASE("a lane opens when both ends open it, whichever comes first") {
  for (const bool lower_first : {true, false}) {
    World world(2);
    world.OpenAll();
    Lane& first = world.Open(lower_first ? 0 : 1, lower_first ? 1 : 0);
    CHECK(world.PollUntil([&] { return IsOpen(first); }));
    Lane& second = world.Open(lower_first ? 1 : 0, lower_first ? 0 : 1);
    CHECK(world.PollUntil([&] { return IsOpen(second); }));
  }
}

TEST_CASE("bytes written before the other end opened its lane wait in the wire") {
  World world(2);
  world.OpenAll();
  Lane& lane = world.Open(0, 1);
  REQUIRE(world.PollUntil([&] { return IsOpen(lane); }));
  const auto data = Pattern(1000, 1);
  const Bytes piece = data;
  REQUIRE(lane.Write({&piece, 1}) == 1000);
  CHECK(lane.accepted() == 1000);
  CHECK(lane.released() == 1000);
  Lane& other = world.Open(1, 0);
  Arrived seen;
  REQUIRE(world.PollUntil([&] { return (seen = other.Peek(1000)).size() == 1000; }));
  CHECK(std::memcmp(seen.first.data(), data.data(), seen.first.size()) == 0);
}

TEST_CASE("large streams keep their order in both directions at once") {
  for (const bool split : {true, false}) {
    World world(2, [&](int, TcpOptions& options) { options.split_local_lanes = split; });
    world.OpenAll();
    const auto a = Pattern(4 << 20, 1);
    const auto b = Pattern((4 << 20) + 12345, 2);
    std::vector<std::byte> at0(b.size()), at1(a.size());
    bool fine0 = false;
    Lane& lane0 = world.Open(0, 1);
    Lane& lane1 = world.Open(1, 0);
    std::thread other([&] { fine0 = Exchange(world[0], lane0, a, at0); });
    const bool fine1 = Exchange(world[1], lane1, b, at1);
    other.join();
    CHECK(fine0);
    CHECK(fine1);
    CHECK(at0 == b);
    CHECK(at1 == a);
  }
}

TEST_CASE("no wake-up is lost between a writer that never waits and a reader that sleeps at every turn") {
  World world(2);
  world.OpenAll();
  Lane& out = world.Open(0, 1);
  Lane& in = world.Open(1, 0);
  REQUIRE(world.PollUntil([&] { return IsOpen(out) && IsOpen(in); }));
  constexpr std::uint64_t kMessages = 20000;
  std::atomic<std::uint64_t> seen{0};
  std::thread writer([&] {
    // Sends one byte at a time, a random time after the reader has read the previous byte. So bytes arrive at every
    // point before the reader's sleep.
    Random random(5);
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      while (seen.load() < i) std::this_thread::yield();
      for (std::uint64_t pause = random.Below(200); pause > 0; --pause)
        std::atomic_signal_fence(std::memory_order_seq_cst);
      const std::byte byte{static_cast<unsigned char>(i)};
      const Bytes piece(&byte, 1);
      while (out.Write({&piece, 1}) == 0) {
      }
    }
  });
  bool in_order = true;
  const bool done = PollOneUntil(world[1], [&] {
    const Arrived arrived = in.Peek(1);
    if (arrived.size() == 0) return false;
    in_order = in_order && arrived.first[0] == std::byte{static_cast<unsigned char>(seen.load())};
    in.Consume(1);
    return seen.fetch_add(1) + 1 == kMessages;
  });
  CHECK(done);
  CHECK(in_order);
  writer.join();
}

TEST_CASE("a reader that is fully asleep does not spin") {
  World world(2);
  world.OpenAll();
  Lane& a = world.Open(0, 1);
  Lane& b = world.Open(1, 0);
  REQUIRE(world.PollUntil([&] { return IsOpen(a) && IsOpen(b); }));
  // Bytes that the owner has already read leave edge-triggered events behind. These events must not wake the owner
  // again.
  const std::byte byte{1};
  const Bytes piece(&byte, 1);
  REQUIRE(a.Write({&piece, 1}) == 1);
  REQUIRE(PollOneUntil(world[1], [&] { return b.Peek(1).size() == 1; }));
  b.Consume(1);
  while (world[1].Arm()) world[1].Disarm();
  pollfd waiting{world[1].wait_fd(), POLLIN, 0};
  CHECK(poll(&waiting, 1, 50) == 0);
  world[1].Disarm();
}

TEST_CASE("when both open at the same moment exactly one control connection comes of it, and no message is lost") {
  World world(2);
  for (std::uint64_t round = 1; round <= 100; ++round) {
    Recorder recorder0, recorder1;
    {
      auto endpoint0 = OpenEndpoint(*world.transports[0], 0, world.addresses, recorder0, round);
      auto endpoint1 = OpenEndpoint(*world.transports[1], 1, world.addresses, recorder1, round);
      std::atomic<int> ready{0};
      const auto open = [&](Endpoint& endpoint, Rank peer) {
        ++ready;
        while (ready < 2) std::this_thread::yield();
        REQUIRE(endpoint.Open(peer, 0));
        // These messages are queued, because the connection is being made.
        for (int i = 0; i < 3; ++i) CHECK(endpoint.SendControl(peer, {ControlKind::kHeartbeat, std::to_string(i)}));
        CHECK(endpoint.SendControl(peer, {ControlKind::kGoodbye, ""}));
      };
      std::thread other([&] { open(*endpoint0, 1); });
      open(*endpoint1, 0);
      other.join();
      REQUIRE(recorder0.WaitForMessages(4));
      REQUIRE(recorder1.WaitForMessages(4));
      Lane* lane0 = *endpoint0->Open(1, 0);
      Lane* lane1 = *endpoint1->Open(0, 0);
      CHECK(PollOneUntil(*endpoint0, [&] { return IsOpen(*lane0); }));
      CHECK(PollOneUntil(*endpoint1, [&] { return IsOpen(*lane1); }));
      for (Recorder* recorder : {&recorder0, &recorder1}) {
        const auto messages = recorder->messages();
        REQUIRE(messages.size() == 4);
        for (int i = 0; i < 3; ++i) CHECK(messages[static_cast<std::size_t>(i)].second.body == std::to_string(i));
      }
      endpoint0->ShutDown();
      endpoint1->ShutDown();
    }
    CHECK(recorder0.lost().empty());
    CHECK(recorder1.lost().empty());
  }
}

TEST_CASE("a connection that comes before its endpoint is held, and adopted when the endpoint opens") {
  auto counters = std::make_shared<TcpCounters>();
  World world(2, [&](int rank, TcpOptions& options) {
    if (rank == 1) options.counters = counters;
  });
  world.OpenRank(0);
  Lane& lane = world.Open(0, 1);
  REQUIRE(world[0].SendControl(1, {ControlKind::kHeartbeat, "early"}));
  REQUIRE(world.PollUntil([&] { return counters->held == 1; }));
  CHECK(lane.state() == LaneState::kConnecting);
  world.OpenRank(1);
  CHECK(world.RecorderOf(1).WaitForMessages(1));
  CHECK(world.PollUntil([&] { return IsOpen(lane); }));
}

TEST_CASE("beyond the limit of held connections the client tries again until there is room") {
  World world(2, [](int, TcpOptions& options) { options.max_held_connections = 0; });
  world.OpenRank(0);
  Lane& lane = world.Open(0, 1);
  // Long enough for at least one refused attempt, because the first pause between rounds is a few milliseconds.
  poll(nullptr, 0, 30);
  CHECK(lane.state() == LaneState::kConnecting);
  world.OpenRank(1);
  CHECK(world.PollUntil([&] { return IsOpen(lane); }));
}

TEST_CASE("a peer that answers but never opens its endpoint is a timeout that says so") {
  World world(2);
  world.OpenRank(0, 1, std::chrono::milliseconds(200));
  Lane& lane = world.Open(0, 1);
  REQUIRE(world.RecorderOf(0).WaitForLost(1));
  const Error error = world.RecorderOf(0).lost()[0].second;
  CHECK(error.code() == ErrorCode::kTimeout);
  CHECK(error.culprit() == 1);
  CHECK(error.message().find("rank 1") != std::string::npos);
  CHECK(error.message().find("has not opened the communicator") != std::string::npos);
  REQUIRE(world.PollUntil([&] { return lane.state() == LaneState::kFailed; }));
  CHECK(lane.failure()->code() == ErrorCode::kTimeout);
}

TEST_CASE("a peer that cannot be reached is an error that lists every address tried and why") {
  World world(2, [](int rank, TcpOptions& options) {
    if (rank == 1) options.addresses = {"127.0.0.5", "127.0.0.6"};
  });
  world.OpenRank(0, 1, std::chrono::milliseconds(300));
  world.transports[1].reset();  // no process listens at the address any more
  Lane& lane = world.Open(0, 1);
  REQUIRE(world.RecorderOf(0).WaitForLost(1));
  const Error error = world.RecorderOf(0).lost()[0].second;
  CHECK(error.code() == ErrorCode::kUnreachable);
  CHECK(error.culprit() == 1);
  StateFault(24, 1, error);
  for (const char* part : {"127.0.0.5:", "127.0.0.6:", "Connection refused", "tries", "--interface"}) {
    CAPTURE(part);
    CHECK(error.message().find(part) != std::string::npos);
  }
  CHECK(world.PollUntil([&] { return lane.state() == LaneState::kFailed; }));
}

// A port of 127.0.0.1 that answers no SYN, because its queue of connections is full. It looks like a firewall that
// drops packets.
class MutePort {
 public:
  MutePort() {
    auto listener = tcp::Listen({*IpAddress::Parse("127.0.0.1"), 0}, 0, false, {});
    REQUIRE(listener);
    listener_ = std::move(*listener);
    const SocketAddress at = LocalSocketAddress(listener_.get());
    port_ = at.port;
    // Fills the queue. Later connections get no answer.
    for (int i = 0; i < 3; ++i) waiting_.push_back(*tcp::StartConnect(at, nullptr, 0, {}));
  }
  std::uint16_t port() const { return port_; }

 private:
  Fd listener_;
  std::vector<Fd> waiting_;
  std::uint16_t port_ = 0;
};

// The address of a rank, with all its ports replaced by `port`.
std::string WithPort(const std::string& address, std::uint16_t port) {
  tcp::TcpAddress changed = *tcp::DecodeTcpAddress(address);
  for (tcp::Candidate& candidate : changed.candidates) candidate.at.port = port;
  return Encode(changed);
}

TEST_CASE("a peer whose ports do not answer is an error within the time to reach it, with address, port and firewall") {
  const MutePort mute;
  World world(2, [](int, TcpOptions& options) {
    options.addresses = {"127.0.0.1"};
    options.reach_timeout = std::chrono::milliseconds(300);
  });
  world.addresses[1] = WithPort(world.addresses[1], mute.port());
  world.OpenRank(0);
  Lane& lane = world.Open(0, 1);
  CHECK(world[0].ControlPeers() == std::vector<Rank>{1});  // includes a connection that is being made
  CHECK_FALSE(world[0].IsConnected(1));
  REQUIRE(world.RecorderOf(0).WaitForLost(1));
  const Error error = world.RecorderOf(0).lost()[0].second;
  CAPTURE(error.message());
  CHECK(error.code() == ErrorCode::kUnreachable);
  CHECK(error.culprit() == 1);
  const std::string where = "127.0.0.1:" + std::to_string(mute.port());
  for (const std::string& part : {where + " via lo (same host): no answer", std::string("within 0.3 s"),
                                  std::string("firewall"), std::string("--ports"), std::string("RONDO_PORTS")})
    CHECK_MESSAGE(error.message().find(part) != std::string::npos, part);
  CHECK(world[0].DescribePeer(1).find("not connected: " + where) == 0);
  CHECK(world.PollUntil([&] { return lane.state() == LaneState::kFailed; }));
}

TEST_CASE("a peer that refuses is not said to be dead for certain, since a firewall may") {
  World world(2, [](int, TcpOptions& options) { options.addresses = {"127.0.0.1"}; });
  const HeldPort refuses;
  world.addresses[1] = WithPort(world.addresses[1], refuses.port());
  world.OpenRank(0);
  world.Open(0, 1);
  REQUIRE(world.RecorderOf(0).WaitForLost(1));
  const Error error = world.RecorderOf(0).lost()[0].second;
  CHECK(error.code() == ErrorCode::kPeerLost);
  CHECK(error.message().find("ended (normally or not) before this rank connected to it, or a firewall rejects") !=
        std::string::npos);
  CHECK(error.message().find("127.0.0.1:" + std::to_string(refuses.port())) != std::string::npos);
  CHECK(error.message().find("--ports FIRST-LAST or RONDO_PORTS limits these ports to a range") != std::string::npos);
}

TEST_CASE("a connection to oneself counts as refused, since nothing listens there") {
  const Fd self(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const RawSocketAddress any = ToRaw({*IpAddress::Parse("127.0.0.1"), 0});
  REQUIRE(bind(self.get(), any.get(), any.bytes) == 0);
  const RawSocketAddress itself = ToRaw(LocalSocketAddress(self.get()));
  REQUIRE(connect(self.get(), itself.get(), itself.bytes) == 0);
  CHECK(tcp::ConnectResult(self.get()) == ECONNREFUSED);
}

TEST_CASE("a peer that is connected is known to be, and no more when it has left") {
  World world(2);
  world.OpenAll();
  world.Open(0, 1);
  CHECK(world.PollUntil([&] { return world[0].IsConnected(1) && world[1].IsConnected(0); }));
  world.endpoints[1].reset();
  REQUIRE(world.RecorderOf(0).WaitForLost(1));
  CHECK(world.PollUntil([&] { return !world[0].IsConnected(1); }));
}

TEST_CASE("a process listens in its range of ports, and the error names the range when it is used up") {
  const HeldPort held;  // only a socket with SO_REUSEADDR, such as Rondo's, can take the port
  TcpOptions options = LocalOptions();
  options.addresses = {"127.0.0.1"};
  options.ports = {.first = held.port(), .last = held.port()};
  const auto first = MakeTransport(options);
  CHECK(tcp::DecodeTcpAddress(first->Address())->candidates.front().at.port == held.port());
  const auto second = MakeTcpTransport(options);
  REQUIRE_FALSE(second);
  CHECK(second.error().code() == ErrorCode::kAddressInUse);
  CHECK(second.error().message().find("none of the 1 ports " + std::to_string(held.port()) +
                                      " (--ports, RONDO_PORTS)") != std::string::npos);
}

TEST_CASE("processes of different jobs and generations refuse each other at once, and say why") {
  for (const bool job : {true, false}) {
    World world(2, [&](int rank, TcpOptions& options) {
      if (rank == 0) (job ? options.job = "other" : (options.generation = 3, options.job));
    });
    world.OpenRank(0);
    world.OpenRank(1);
    world.Open(0, 1);
    REQUIRE(world.RecorderOf(0).WaitForLost(1));
    const Error error = world.RecorderOf(0).lost()[0].second;
    CHECK(error.code() == ErrorCode::kStale);
    StateFault(17, 1, error);
    CHECK(error.message().find(job ? "belongs to job 'test', but the client belongs to job 'other'"
                                   : "of generation 0, but the client is of generation 3") != std::string::npos);
    CHECK(world.RecorderOf(1).lost().empty());
  }
}

TEST_CASE("a process that took over a dead one's port is not taken for it") {
  World world(2, [](int rank, TcpOptions& options) {
    if (rank == 1) options.addresses = {"127.0.0.7"};
  });
  world.OpenRank(0);
  const std::string line = world.transports[1]->DescribeAddress();
  const std::size_t at = line.find("127.0.0.7:") + 10;
  const int port = std::stoi(line.substr(at));
  world.transports[1].reset();
  TcpOptions options = LocalOptions();
  options.addresses = {"127.0.0.7"};
  options.port = static_cast<std::uint16_t>(port);
  world.transports[1] = MakeTransport(options);
  world.Open(0, 1);
  REQUIRE(world.RecorderOf(0).WaitForLost(1));
  CHECK(world.RecorderOf(0).lost()[0].second.code() == ErrorCode::kStale);
  StateFault(17, 1, world.RecorderOf(0).lost()[0].second);
}

TEST_CASE("an endpoint that is closed refuses late clients at once") {
  World world(2);
  world.OpenRank(1);
  world.endpoints[1].reset();
  world.OpenRank(0);
  world.Open(0, 1);
  REQUIRE(world.RecorderOf(0).WaitForLost(1));
  CHECK(world.RecorderOf(0).lost()[0].second.code() == ErrorCode::kClosed);
}

TEST_CASE("a fixed port that is taken is an error with the address") {
  const auto first = MakeTransport([] {
    TcpOptions options = LocalOptions();
    options.addresses = {"127.0.0.8"};
    return options;
  }());
  const std::string line = first->DescribeAddress();
  TcpOptions options = LocalOptions();
  options.addresses = {"127.0.0.8"};
  options.port = static_cast<std::uint16_t>(std::stoi(line.substr(line.find("127.0.0.8:") + 10)));
  const auto second = MakeTcpTransport(options);
  REQUIRE_FALSE(second);
  CHECK(second.error().code() == ErrorCode::kAddressInUse);
  StateFault(25, 1, second.error());
  CHECK(second.error().details().address == "127.0.0.8:" + std::to_string(options.port));
}

TEST_CASE("the path to a peer is described in words") {
  World world(2, [](int, TcpOptions& options) { options.addresses = {"::1"}; });
  world.OpenAll();
  CHECK(world[0].DescribePeer(1) == "not connected");
  Lane& lane = world.Open(0, 1);
  REQUIRE(world.PollUntil([&] { return IsOpen(lane); }));
  const std::string path = world[0].DescribePeer(1);
  CAPTURE(path);
  CHECK(path.starts_with("[::1]:"));
  CHECK(path.find(" via lo (same host; ") != std::string::npos);
}

TEST_CASE("wrong arguments are refused with the number that is wrong") {
  World world(2);
  world.OpenAll();
  for (const Rank wrong : {-1, 0, 2}) {
    const auto lane = world[0].Open(wrong, 0);
    REQUIRE_FALSE(lane);
    CHECK(lane.error().code() == ErrorCode::kInvalidArgument);
    CHECK(lane.error().message().find("rank " + std::to_string(wrong)) != std::string::npos);
  }
  CHECK(world[0].Open(1, 1u << 20).error().code() == ErrorCode::kResource);
  EndpointConfig config;
  config.addresses = world.addresses;
  config.observer = &world.RecorderOf(0);
  config.communicator = 1;
  // Another endpoint of this transport already has this name (communicator and rail).
  CHECK(world.transports[0]->OpenEndpoint(config).error().code() == ErrorCode::kInvalidArgument);
  config.communicator = 2;
  config.addresses[1] = "garbage";
  const auto bad = world.transports[0]->OpenEndpoint(config);
  REQUIRE_FALSE(bad);
  CHECK(bad.error().message().find("rank 1") != std::string::npos);
}

TEST_CASE("a control message to a peer whose control thread is busy is sent later, in order") {
  World world(2);
  world.OpenAll();
  Lane& lane = world.Open(0, 1);
  REQUIRE(world.PollUntil([&] { return IsOpen(lane); }));
  // Messages that exceed the sockets' buffers wait in the backlog. If the backlog is full, SendControl returns false
  // instead of blocking.
  const std::string body(kMaxControlBodyBytes, 'b');
  std::size_t sent = 0;
  for (int i = 0; i < 2000; ++i) sent += world[0].SendControl(1, {ControlKind::kHeartbeat, body}) ? 1 : 0;
  CHECK(sent > 100);
  CHECK(world.RecorderOf(1).WaitForMessages(sent));
  CHECK(world.RecorderOf(1).messages().size() == sent);
}

// Blocks the control thread when it logs a foreign client.
class HoldsUp final : public Logger {
 public:
  void Write(LogLevel, std::string_view text) override {
    if (text.find("dropped a connection") == std::string_view::npos || was_held_.exchange(true)) return;
    held.count_down();
    goes_on.wait();
  }
  std::latch held{1}, goes_on{1};

 private:
  std::atomic<bool> was_held_{false};
};

TEST_CASE("a connection that its client gave up before the handshake is not taken for a rank that died") {
  HoldsUp logger;
  World world(2, [&](int rank, TcpOptions& options) {
    options.handshake_timeout = rank == 1 ? std::chrono::milliseconds(50) : std::chrono::milliseconds(5000);
    if (rank == 0) options.logger = &logger;
  });
  world.OpenAll();
  const Fd foreign_client = Call(*world.transports[0]);
  Say(foreign_client, std::vector<std::byte>(64, std::byte{'x'}));
  logger.held.wait();
  Lane& to_0 = world.Open(1, 0);
  // The pause is long enough for the client to give up several connections.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  logger.goes_on.count_down();
  Lane& to_1 = world.Open(0, 1);
  CHECK(world.PollUntil([&] { return to_0.state() == LaneState::kOpen && to_1.state() == LaneState::kOpen; }));
  CHECK(world.RecorderOf(0).lost().empty());
  CHECK(world.RecorderOf(1).lost().empty());
}

TEST_CASE("a rank that asks for a retry gets one, whatever else listens at its other addresses") {
  World world(2, [&](int rank, TcpOptions& options) {
    if (rank == 1) options.max_held_connections = 0;
  });
  // Imitates two hosts whose container bridges have the same address, while on this host another process listens at
  // that address and port.
  const auto outside = MakeTransport(LocalOptions());
  auto both = tcp::DecodeTcpAddress(world.addresses[1]);
  const auto other = tcp::DecodeTcpAddress(outside->Address());
  REQUIRE(both);
  REQUIRE(other);
  both->candidates.resize(1);
  both->candidates.push_back(other->candidates.front());
  world.addresses[1] = tcp::Encode(*both);
  world.OpenRank(0);
  Lane& to_1 = world.Open(0, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  world.OpenRank(1);
  Lane& to_0 = world.Open(1, 0);
  CHECK(world.PollUntil([&] { return to_0.state() == LaneState::kOpen && to_1.state() == LaneState::kOpen; }));
  CHECK(world.RecorderOf(0).lost().empty());
}

}  // namespace endpoint_test
}  // namespace rondo::test
