// A transport that wraps another one, and flips a single bit in the stream from one rank to another, like a bad cable,
// card or memory. The flip happens when the sender's lane takes the byte. So the damage is the same in every mode of
// receiving: copied, pushed into the receiver's memory, or read from the sender's memory.
//
//   FlippedBit bit{.from = 1, .to = 0, .offset = 64, .mask = 1};
//   options.transport = std::make_shared<FlippingTransport>(network.transport(rank), bit);
//   ... CHECK(bit.fired == 1);
//
// Thread rule: as for the inner transport. Read `fired` only when no operation runs.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "tests/support/passing_lane.h"
#include "tests/support/passing_transport.h"
#include "transport/transport.h"

namespace rondo {

struct FlippedBit {
  Rank from = 0, to = 0;
  std::uint32_t lane = 0;
  std::uint64_t offset = 0;  // offset of the damaged byte in the stream that `from` sends to `to` on this lane
  unsigned char mask = 1;
  int fired = 0;                   // 1 after the lane has taken the byte to damage
  std::uint64_t stream_bytes = 0;  // bytes that the lane has taken so far
};

class FlippingLane final : public PassingLane {
 public:
  FlippingLane(Lane& lane, FlippedBit& bit) : PassingLane(lane), bit_(bit) {}

  std::size_t Write(std::span<const Bytes> pieces) override {
    std::array<Bytes, 32> damaged;
    RONDO_CHECK(pieces.size() <= damaged.size());
    std::uint64_t at = accepted();
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      damaged[i] = Damage(pieces[i], at);
      at += pieces[i].size();
    }
    return Count(lane().Write(std::span(damaged.data(), pieces.size())));
  }

 private:
  // `at`: the stream offset of the piece. Returns the piece, or a damaged copy of it if it contains the byte to damage.
  // Copies are kept, because the lane may still read them.
  Bytes Damage(Bytes piece, std::uint64_t at) {
    if (bit_.offset < at || bit_.offset >= at + piece.size()) return piece;
    std::vector<std::byte>& copy = copies_.emplace_back(piece.begin(), piece.end());
    copy[bit_.offset - at] ^= std::byte{bit_.mask};
    return copy;
  }
  std::size_t Count(std::size_t accepted) {
    bit_.stream_bytes = lane().accepted();
    if (bit_.stream_bytes > bit_.offset) bit_.fired = 1;
    return accepted;
  }

  FlippedBit& bit_;
  std::deque<std::vector<std::byte>> copies_;
};

class FlippingEndpoint final : public PassingEndpoint {
 public:
  // `bit` must outlive the endpoint.
  FlippingEndpoint(std::unique_ptr<Endpoint> endpoint, Rank rank, FlippedBit& bit)
      : PassingEndpoint(std::move(endpoint)), rank_(rank), bit_(bit) {}
  // Ends the inner endpoint before lane_ is destroyed, because the endpoint may still read copies that lane_ owns.
  ~FlippingEndpoint() override { EndInner(); }

  Result<Lane*> Open(Rank peer, std::uint32_t index) override {
    RONDO_ASSIGN(Lane * lane, PassingEndpoint::Open(peer, index));
    if (rank_ != bit_.from || peer != bit_.to || index != bit_.lane) return lane;
    if (lane_ == nullptr) lane_ = std::make_unique<FlippingLane>(*lane, bit_);
    return lane_.get();
  }

 private:
  std::unique_ptr<FlippingLane> lane_;
  const Rank rank_;
  FlippedBit& bit_;
};

class FlippingTransport final : public PassingTransport {
 public:
  // `bit` must outlive the transport and its endpoints.
  FlippingTransport(std::shared_ptr<Transport> transport, FlippedBit& bit)
      : PassingTransport(std::move(transport)), bit_(bit) {}

  Result<std::unique_ptr<Endpoint>> OpenEndpoint(const EndpointConfig& config) override {
    RONDO_ASSIGN(auto endpoint, inner().OpenEndpoint(config));
    return std::unique_ptr<Endpoint>(std::make_unique<FlippingEndpoint>(std::move(endpoint), config.rank, bit_));
  }

 private:
  FlippedBit& bit_;
};

}  // namespace rondo
