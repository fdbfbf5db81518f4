// A transport around another one, of which a single bit flips in the stream from one rank to another: what a bad cable,
// card or memory does. It happens where the sender's lane takes the byte, so every way in which a receiver gets at it
// (copied, pushed into its memory, read from the sender's) sees the same damage.
//
//   FlippedBit bit{.from = 1, .to = 0, .offset = 64, .mask = 1};
//   options.transport = std::make_shared<FlippingTransport>(network.transport(rank), bit);
//   ... CHECK(bit.fired == 1);
//
// Thread rule: that of what it wraps; `fired` is read when all is quiet.
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
  std::uint64_t offset = 0;  // in the stream of that lane direction
  unsigned char mask = 1;
  int fired = 0;                   // 1 once the lane has taken the byte
  std::uint64_t stream_bytes = 0;  // that the lane has taken so far
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
  // The piece that begins at stream offset `at`, or a copy with the damage. Copies stay: they are lent to the lane.
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
  // `bit` outlives it.
  FlippingEndpoint(std::unique_ptr<Endpoint> endpoint, Rank rank, FlippedBit& bit)
      : PassingEndpoint(std::move(endpoint)), rank_(rank), bit_(bit) {}
  ~FlippingEndpoint() override { EndInner(); }  // what the lane has lent outlives what it wraps

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
  // `bit` outlives it and its endpoints.
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
