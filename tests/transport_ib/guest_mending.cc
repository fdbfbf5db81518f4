// A lane whose RDMA port goes down amid its bytes: they go on by the next port, else by the base lane, else the lane
// says whose port it was. Nothing is lost, doubled or changed. Run in a guest of tools/lab/rdma_vm (tests/vm), as root:
// it takes veth1 down and up, under the device rxe1; rxe2 is on another interface.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"
#include "transport/ib/ib.h"
#include "transport/tcp/tcp.h"

namespace rondo {
namespace {

class Silent final : public PeerObserver {
  void OnControl(Rank, ControlMessage) override {}
  void OnPeerLost(Rank, Error) override {}
};

void SetLink(bool up) {
  REQUIRE(std::system(up ? "ip link set veth1 up" : "ip link set veth1 down") == 0);
  if (!up) return;
  // A port is active again when its interface has its address and its carrier.
  for (int waited = 0; std::system("rdma link show rxe1/1 | grep -q ACTIVE") != 0; ++waited) {
    REQUIRE(waited < 100);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

std::byte Pattern(Rank from, std::uint64_t offset) {
  return static_cast<std::byte>((offset * 2654435761u + static_cast<std::uint64_t>(from) * 97) >> 7);
}

// One end of a lane, which sends and checks a pattern.
struct Side {
  std::shared_ptr<Transport> transport;
  std::unique_ptr<Endpoint> endpoint;
  Lane* lane = nullptr;
  Rank rank = 0;
  std::uint64_t sent = 0;
  std::uint64_t read = 0;
  std::uint64_t wrong = 0;

  void Send(std::uint64_t until, std::size_t most) {
    std::vector<std::byte> bytes(std::min<std::uint64_t>(most, until - sent));
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = Pattern(rank, sent + i);
    const Bytes piece(bytes);
    sent += lane->Write(std::span(&piece, 1));
  }
  void Read(std::size_t most) {
    std::vector<std::byte> bytes(most);
    const std::size_t got = lane->ReadInto(bytes);
    for (std::size_t i = 0; i < got; ++i) wrong += bytes[i] != Pattern(1 - rank, read + i);
    read += got;
  }
};

class Pair {
 public:
  // The ports of either, in IbOptions' words.
  Pair(const std::array<std::string, 2>& ports, bool may_fall_back) {
    EndpointConfig config{.communicator = 1, .observer = &silent_};
    for (std::size_t rank = 0; rank < 2; ++rank) {
      TcpOptions tcp;
      tcp.job = "mending";
      tcp.host_id = LocalHostId();
      auto base = MakeTcpTransport(tcp);
      REQUIRE(base);
      auto transport =
          MakeIbTransport(*base, {.port = ports[rank], .may_fall_back = may_fall_back, .ring_bytes = 64 * 1024});
      REQUIRE_MESSAGE(transport, transport.error().ToString());
      sides_[rank].transport = *transport;
      config.addresses.push_back((*transport)->Address());
    }
    for (Rank rank = 0; rank < 2; ++rank) {
      Side& side = sides_[static_cast<std::size_t>(rank)];
      config.rank = side.rank = rank;
      auto endpoint = side.transport->OpenEndpoint(config);
      REQUIRE_MESSAGE(endpoint, endpoint.error().ToString());
      side.endpoint = std::move(*endpoint);
      auto lane = side.endpoint->Open(1 - rank, 0);
      REQUIRE(lane);
      side.lane = *lane;
    }
    Until([&] { return sides_[0].lane->state() == LaneState::kOpen && sides_[1].lane->state() == LaneState::kOpen; });
    // Both have said so.
    Exchange(1, 1, 1);
  }

  Side& operator[](std::size_t rank) { return sides_[rank]; }

  void Poll() {
    for (Side& side : sides_) side.endpoint->Poll(SteadyClock().Now());
  }
  void Until(const std::function<bool()>& done) {
    const TimePoint late = SteadyClock().Now() + std::chrono::seconds(20);
    while (!done()) {
      Poll();
      REQUIRE(SteadyClock().Now() < late);
    }
  }
  // Goes on until so many bytes have been written in all, each way, and all or some of them read.
  void Exchange(std::uint64_t written, std::uint64_t read, std::size_t most) {
    Until([&] {
      bool done = true;
      for (Side& side : sides_) {
        side.Send(std::max(written, side.sent), most);
        if (side.read < read) side.Read(most);
        done = done && side.sent >= written && side.read >= read;
        REQUIRE_MESSAGE(side.lane->state() == LaneState::kOpen,
                        (side.lane->failure() == nullptr ? "ended" : side.lane->failure()->ToString()));
      }
      return done;
    });
  }
  std::uint64_t wrong() const { return sides_[0].wrong + sides_[1].wrong; }

 private:
  Silent silent_;
  std::array<Side, 2> sides_;
};

constexpr std::uint64_t kBefore = 300'000;
constexpr std::uint64_t kAll = 1'000'000;

TEST_CASE("the bytes go on by the next port, with those that were on their way") {
  {
    Pair pair({"rxe0+rxe2", "rxe1+rxe2"}, false);
    pair.Exchange(kBefore + 20'000, kBefore, 10'000);
    SetLink(false);
    pair.Exchange(kAll, kAll, 10'000);
    CHECK(pair.wrong() == 0);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      const std::string path = pair[rank].endpoint->DescribePeer(static_cast<Rank>(1 - rank));
      CAPTURE(path);
      CHECK(path.find("ib rxe2:1") == 0);
      CHECK(path.find("RDMA by rxe") != std::string::npos);  // why
      CHECK(pair[rank].endpoint->TransportTo(static_cast<Rank>(1 - rank)) == "ib");
    }
  }
  SetLink(true);
}

TEST_CASE("where no port is left they go by the base lane, if that is allowed") {
  {
    Pair pair({"rxe0", "rxe1"}, true);
    pair.Exchange(kBefore + 20'000, kBefore, 10'000);
    SetLink(false);
    pair.Exchange(kAll, kAll, 10'000);
    CHECK(pair.wrong() == 0);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      const std::string path = pair[rank].endpoint->DescribePeer(static_cast<Rank>(1 - rank));
      CAPTURE(path);
      CHECK(path.find("no RDMA: ") == 0);
      CHECK(pair[rank].endpoint->TransportTo(static_cast<Rank>(1 - rank)) == "tcp");
    }
    // And end as a lane does.
    pair[0].endpoint->ShutDown();
    pair.Until([&] { return pair[1].lane->state() == LaneState::kEnded; });
  }
  SetLink(true);
}

TEST_CASE("where that is not allowed both ends say whose port it was") {
  {
    Pair pair({"rxe0", "rxe1"}, false);
    SetLink(false);
    pair.Until([&] {
      for (std::size_t rank = 0; rank < 2; ++rank)
        if (pair[rank].lane->state() == LaneState::kOpen) pair[rank].Send(kAll, 10'000);
      return pair[0].lane->state() == LaneState::kFailed && pair[1].lane->state() == LaneState::kFailed;
    });
    for (std::size_t rank = 0; rank < 2; ++rank) {
      const Error& error = *pair[rank].lane->failure();
      CAPTURE(error.ToString());
      CHECK(error.code() == ErrorCode::kConnectionReset);
      CHECK(error.culprit() == 1);
      CHECK(error.message().find("RDMA by rxe") != std::string::npos);
    }
  }
  SetLink(true);
}

TEST_CASE("wherever in the stream it happens") {
  Random random(20261124);
  for (int round = 0; round < 12; ++round) {
    CAPTURE(round);
    {
      const bool spare = round % 2 == 0;
      Pair pair({spare ? "rxe0+rxe2" : "rxe0", spare ? "rxe1+rxe2" : "rxe1"}, true);
      const std::uint64_t read = 1 + random.Below(200'000);
      const std::uint64_t written = read + random.Below(60'000);  // less than a ring more
      const std::size_t most = 1 + random.Below(30'000);
      pair.Exchange(written, read, most);
      SetLink(false);
      pair.Exchange(written + 300'000, written + 300'000, most);
      CHECK(pair.wrong() == 0);
    }
    SetLink(true);
  }
}

}  // namespace
}  // namespace rondo
