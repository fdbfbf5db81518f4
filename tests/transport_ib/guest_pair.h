// The two ends of an RDMA lane in one process, for the tests in a guest: rank 0 and rank 1, each with its own
// transport.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "transport/ib/ib.h"
#include "transport/tcp/tcp.h"

namespace rondo {

class Silent final : public PeerObserver {
  void OnControl(Rank, ControlMessage) override {}
  void OnPeerLost(Rank, Error) override {}
};

// Takes veth1, the interface under rxe1, up or down.
inline void SetLink(bool up) {
  REQUIRE(std::system(up ? "ip link set veth1 up" : "ip link set veth1 down") == 0);
  if (!up) return;
  // A port is active again once its interface has its address and its carrier.
  for (int waited = 0; std::system("rdma link show rxe1/1 | grep -q ACTIVE") != 0; ++waited) {
    REQUIRE(waited < 100);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

// How many rounds a sweep over random moments has: `usual`, times RONDO_TIMES (suite vm-long).
inline int Rounds(int usual) {
  const char* const times = std::getenv("RONDO_TIMES");
  return times == nullptr ? usual : usual * std::atoi(times);
}

inline std::byte Pattern(Rank from, std::uint64_t offset) {
  return static_cast<std::byte>((offset * 2654435761u + static_cast<std::uint64_t>(from) * 97) >> 7);
}

// Memory from which a side sends: each byte of the stream has its own place, and is overwritten as soon as it is
// released.
struct Source {
  std::unique_ptr<Memory> memory;
  std::uint64_t overwritten = 0;
};

// One end of a lane. It sends a pattern, and checks the received pattern.
struct Side {
  std::shared_ptr<Transport> transport;
  std::unique_ptr<Endpoint> endpoint;
  Lane* lane = nullptr;
  Rank rank = 0;
  std::uint64_t sent = 0;
  std::uint64_t read = 0;
  std::uint64_t wrong = 0;
  Source source;  // set by Allocate

  // Makes the side send from memory of its transport, `bytes` at most in all.
  void Allocate(std::uint64_t bytes) {
    auto memory = transport->Allocate(bytes);
    REQUIRE(memory);
    source = {.memory = std::move(*memory), .overwritten = sent};
    const MutableBytes all = source.memory->bytes();
    for (std::uint64_t at = sent; at < bytes; ++at) all[at] = Pattern(rank, at);
  }
  void OverwriteReleased() {
    REQUIRE(lane->released() <= lane->accepted());
    const MutableBytes all = source.memory->bytes();
    while (source.overwritten < lane->released()) all[source.overwritten++] = std::byte{0xDD};
  }
  // Sends consecutive pieces of `most` bytes.
  void SendLent(std::uint64_t until, std::size_t most) {
    const Bytes rest = Bytes(source.memory->bytes()).subspan(sent, std::min<std::uint64_t>(2 * most, until - sent));
    const std::array<Bytes, 2> pieces{rest.first(std::min(most, rest.size())),
                                      rest.subspan(std::min(most, rest.size()))};
    sent += lane->Write(pieces);
    OverwriteReleased();
  }
  void Send(std::uint64_t until, std::size_t most) {
    if (source.memory != nullptr) return SendLent(until, most);
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
  // Makes both sides. `ports` are the ports of each side, as in IbOptions; they and `may_fall_back` override `options`.
  Pair(const std::array<std::string, 2>& ports, bool may_fall_back, std::size_t ring_bytes = 64 * 1024,
       IbOptions options = {}) {
    EndpointConfig config;
    config.communicator = 1;
    config.observer = &silent_;
    for (std::size_t rank = 0; rank < 2; ++rank) {
      TcpOptions tcp;
      tcp.job = "mending";
      tcp.host_id = LocalHostId();
      auto base = MakeTcpTransport(tcp);
      REQUIRE(base);
      options.port = ports[rank];
      options.may_fall_back = may_fall_back;
      options.ring_bytes = ring_bytes;
      auto transport = MakeIbTransport(*base, options);
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
    // Waits until both sides have sent and received a byte.
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
  // Continues until each side has written `written` bytes in all, and has read `read` of them.
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

}  // namespace rondo
