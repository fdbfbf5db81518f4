// The two ends of an RDMA lane in one process, for the tests in a virtual machine. The ends are rank 0 and rank 1, each
// with its own transport.
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

// Takes the interface veth1 down, or up again. The RDMA device rxe1 uses this interface. The kernel forgets the routes
// and the neighbours of an interface that goes down, and rdma-net restores them.
inline void SetLink(bool up) {
  REQUIRE(std::system(up ? "rdma-net" : "ip link set veth1 down") == 0);
  if (!up) return;
  // The port becomes active again when its interface has its address and its carrier.
  for (int waited = 0; std::system("rdma link show rxe1/1 | grep -q ACTIVE") != 0; ++waited) {
    REQUIRE(waited < 100);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

// The number of rounds of a test that tries random moments: `usual`, multiplied by the variable RONDO_TIMES, which the
// suite vm-long sets.
inline int Rounds(int usual) {
  const char* const times = std::getenv("RONDO_TIMES");
  return times == nullptr ? usual : usual * std::atoi(times);
}

// How far a side's sent bytes can always be ahead of the bytes that the other side has read. A reader grants room in
// steps of a quarter of the ring, so the room of up to a quarter may not be granted yet.
inline std::uint64_t FarthestAhead(std::size_t ring_bytes) { return ring_bytes - ring_bytes / 4; }

inline std::byte Pattern(Rank from, std::uint64_t offset) {
  return static_cast<std::byte>((offset * 2654435761u + static_cast<std::uint64_t>(from) * 97) >> 7);
}

// Memory from which a side sends. Each byte of the stream has its own position in this memory, and is overwritten as
// soon as it is released.
struct Source {
  std::unique_ptr<Memory> memory;
  std::uint64_t overwritten = 0;
};

// One end of a lane. It sends a pattern, and checks the pattern that it receives.
struct Side {
  std::shared_ptr<Transport> transport;
  std::unique_ptr<Endpoint> endpoint;
  Lane* lane = nullptr;
  Rank rank = 0;
  std::uint64_t sent = 0;
  std::uint64_t read = 0;
  std::uint64_t wrong = 0;
  Source source;  // set by Allocate

  // Makes the side send from memory that its transport allocates. From then on the side can send at most `bytes` bytes
  // in total.
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
  // Sends two consecutive pieces of `most` bytes each from the allocated memory, but no byte beyond offset `until` of
  // the stream.
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

constexpr std::size_t kRingBytes = 64 * 1024;

class Pair {
 public:
  // Makes both sides. `ports` has the port option of each side (IbOptions::port). `ports` and `may_fall_back` replace
  // the values in `options`.
  Pair(const std::array<std::string, 2>& ports, bool may_fall_back, std::size_t ring_bytes = kRingBytes,
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
    // Waits until each side has sent one byte and has received the other side's byte.
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
      REQUIRE_MESSAGE(SteadyClock().Now() < late, Progress());
    }
  }
  // Continues until each side has written `written` bytes in total, and has read `read` bytes.
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
  // The progress and the path of both sides, as text for the message of a test that waited too long.
  std::string Progress() const {
    std::string text;
    for (const Side& side : sides_)
      text += "rank " + std::to_string(side.rank) + ": sent " + std::to_string(side.sent) + ", read " +
              std::to_string(side.read) + ", released " +
              (side.lane == nullptr ? "no lane" : std::to_string(side.lane->released())) + ", path " +
              side.endpoint->DescribePeer(1 - side.rank) + "; ";
    return text;
  }

  Silent silent_;
  std::array<Side, 2> sides_;
};

}  // namespace rondo
