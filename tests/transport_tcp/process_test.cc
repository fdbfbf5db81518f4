// Tests with real processes. A death must be detected, an orderly exit must not count as a death, and a forked child
// must not disturb its parent.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "tests/support/fault_row.h"
#include "tests/transport_tcp/world.h"

namespace rondo::test {
namespace process_test {

// Two processes that exchange addresses over a socket pair. The child is rank 1. It is forked before this process makes
// any transport, because a transport does not survive fork.
class Child {
 public:
  explicit Child(const std::function<int(Transport&, Endpoint&, int pipe)>& body) {
    int pair[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      close(pair[0]);
      _exit(Run(body, pair[1]));
    }
    close(pair[1]);
    pipe_ = pair[0];
  }
  ~Child() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(pipe_);
  }

  std::vector<std::string> ExchangeAddresses(Transport& transport) {
    const std::string mine = transport.Address();
    REQUIRE(send(pipe_, mine.data(), mine.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(mine.size()));
    char theirs[kMaxAddressBytes];
    const ssize_t got = recv(pipe_, theirs, sizeof theirs, 0);
    REQUIRE(got > 0);
    return {mine, std::string(theirs, static_cast<std::size_t>(got))};
  }
  void Kill() {
    kill(pid_, SIGKILL);
    Wait();
  }
  int Wait() {
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  static int Run(const std::function<int(Transport&, Endpoint&, int)>& body, int pipe) {
    auto transport = MakeTcpTransport(LocalOptions());
    if (!transport) return 90;
    char theirs[kMaxAddressBytes];
    const ssize_t got = recv(pipe, theirs, sizeof theirs, 0);
    const std::string mine = (*transport)->Address();
    if (got <= 0 || send(pipe, mine.data(), mine.size(), MSG_NOSIGNAL) < 0) return 91;
    Recorder recorder;
    EndpointConfig config;
    config.communicator = 1;
    config.rank = 1;
    config.addresses = {std::string(theirs, static_cast<std::size_t>(got)), mine};
    config.observer = &recorder;
    auto endpoint = (*transport)->OpenEndpoint(config);
    return endpoint ? body(**transport, **endpoint, pipe) : 92;
  }

  pid_t pid_ = -1;
  int pipe_ = -1;
};

struct Parent {
  explicit Parent(Child& child)
      : transport(MakeTransport(LocalOptions())), addresses(child.ExchangeAddresses(*transport)) {
    endpoint = OpenEndpoint(*transport, 0, addresses, recorder);
    auto opened = endpoint->Open(1, 0);
    REQUIRE(opened);
    lane = *opened;
    // If the child exits at once, it may have ended the lane before this check.
    REQUIRE(PollOneUntil(*endpoint, [&] { return lane->state() != LaneState::kConnecting; }));
  }
  std::shared_ptr<Transport> transport;
  std::vector<std::string> addresses;
  Recorder recorder;
  std::unique_ptr<Endpoint> endpoint;
  Lane* lane = nullptr;
};

// Sends back all received bytes until the lane ends, or until `bytes` bytes were received.
int Echo(Endpoint& endpoint, std::uint64_t bytes = ~std::uint64_t{0}) {
  auto lane = endpoint.Open(0, 0);
  if (!lane) return 1;
  const bool ended = PollOneUntil(endpoint, [&] {
    while (true) {
      const Arrived arrived = (*lane)->Peek(64 * 1024);
      if (arrived.size() == 0) return (*lane)->state() == LaneState::kEnded || (*lane)->consumed() == bytes;
      const Bytes pieces[] = {arrived.first, arrived.second};
      const std::size_t sent = (*lane)->Write(pieces);
      if (sent == 0) return false;
      (*lane)->Consume(sent);
    }
  });
  return ended ? 0 : 2;
}

TEST_CASE("a stream goes to another process and comes back") {
  constexpr std::size_t kBytes = 4 << 20;
  Child child([](Transport&, Endpoint& endpoint, int) {
    const int result = Echo(endpoint, kBytes);
    // This goodbye must precede the parent's goodbye, because the parent reads nothing after its own goodbye.
    endpoint.SendControl(0, {ControlKind::kGoodbye, "done"});
    const int after = Echo(endpoint);
    endpoint.ShutDown();
    return result + after;
  });
  Parent parent(child);
  const auto data = Pattern(kBytes, 9);
  std::vector<std::byte> back(data.size());
  std::size_t written = 0, read = 0;
  CHECK(PollOneUntil(*parent.endpoint, [&] {
    for (bool moved = true; moved && read < back.size();) {
      const Bytes rest = Bytes(data).subspan(written);
      const std::size_t sent = rest.empty() ? 0 : parent.lane->Write({&rest, 1});
      const std::size_t got = parent.lane->ReadInto(MutableBytes(back).subspan(read));
      written += sent;
      read += got;
      moved = sent + got != 0;
    }
    return read == back.size();
  }));
  CHECK(back == data);
  REQUIRE(parent.recorder.WaitForMessages(1));
  parent.endpoint->SendControl(1, {ControlKind::kGoodbye, "done"});
  parent.endpoint->ShutDown();
  CHECK(child.Wait() == 0);
  CHECK(parent.recorder.messages()[0].second.kind == ControlKind::kGoodbye);
  CHECK(parent.recorder.lost().empty());
}

TEST_CASE("a killed process is noticed at once, by name") {
  Child child([](Transport&, Endpoint& endpoint, int) { return Echo(endpoint); });
  Parent parent(child);
  const SteadyClock clock;
  child.Kill();
  const TimePoint killed = clock.Now();
  REQUIRE(parent.recorder.WaitForLost(1));
  CHECK(clock.Now() - killed < std::chrono::seconds(5));  // far less than every timeout here
  const auto [peer, error] = parent.recorder.lost()[0];
  CHECK(peer == 1);
  CHECK(error.code() == ErrorCode::kPeerLost);
  CHECK(error.culprit() == 1);
  CHECK_FALSE(error.details().address.empty());
  CHECK(error.details().host == LocalHostName());
  StateFault(1, 1, error, {.took = clock.Now() - killed});
  CHECK(PollOneUntil(*parent.endpoint, [&] {
    parent.lane->Peek(1);
    return parent.lane->state() == LaneState::kEnded || parent.lane->state() == LaneState::kFailed;
  }));
  // Writing to a dead peer must raise no SIGPIPE. After some time the lane must report the failure.
  const std::byte byte{};
  const Bytes piece(&byte, 1);
  CHECK(PollOneUntil(*parent.endpoint, [&] {
    parent.lane->Write({&piece, 1});
    return parent.lane->state() == LaneState::kFailed;
  }));
  CHECK(parent.lane->failure()->code() == ErrorCode::kConnectionReset);
  CHECK(parent.lane->failure()->culprit() == 1);
  CHECK_FALSE(parent.endpoint->SendControl(1, {ControlKind::kHeartbeat, ""}));
  CHECK(parent.endpoint->ControlPeers().empty());
  // A lane that is opened after the failure must fail with the same cause.
  auto late = parent.endpoint->Open(1, 1);
  REQUIRE(late);
  CHECK(PollOneUntil(*parent.endpoint, [&] { return (*late)->state() == LaneState::kFailed; }));
  CHECK((*late)->failure()->code() == ErrorCode::kPeerLost);
}

TEST_CASE("a goodbye that was sent right before the process ended still arrives, and there is no loss") {
  Child child([](Transport&, Endpoint& endpoint, int) {
    auto lane = endpoint.Open(0, 0);
    if (!lane || !PollOneUntil(endpoint, [&] { return (*lane)->state() == LaneState::kOpen; })) return 1;
    endpoint.SendControl(0, {ControlKind::kGoodbye, "leaving"});
    _exit(0);  // ends without running destructors or flushing anything
  });
  Parent parent(child);
  CHECK(child.Wait() == 0);
  REQUIRE(parent.recorder.WaitForMessages(1));
  CHECK(parent.recorder.messages()[0].second.body == "leaving");
  CHECK(PollOneUntil(*parent.endpoint, [&] { return parent.endpoint->ControlPeers().empty(); }));
  CHECK(parent.recorder.lost().empty());
}

TEST_CASE("a forked child may destroy its copies without disturbing the parent") {
  World world(2);
  world.OpenAll();
  Lane& a = world.Open(0, 1);
  Lane& b = world.Open(1, 0);
  REQUIRE(world.PollUntil([&] { return a.state() == LaneState::kOpen && b.state() == LaneState::kOpen; }));
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    world.endpoints.clear();
    world.transports.clear();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  const Bytes piece = AsBytes("all is well");
  REQUIRE(a.Write({&piece, 1}) == piece.size());
  CHECK(PollOneUntil(world[1], [&] { return b.Peek(piece.size()).size() == piece.size(); }));
  CHECK(world[0].SendControl(1, {ControlKind::kHeartbeat, "beat"}));
  CHECK(world.RecorderOf(1).WaitForMessages(1));
  CHECK(world.RecorderOf(1).lost().empty());
  StateFault(34, 1, "correct");
}

}  // namespace process_test
}  // namespace rondo::test
