// What an endpoint needs of its lanes, whatever these do with their bytes: lane.h sends them as they are, tls_lane.h
// through TLS.
//
// Thread rule: the owner of the endpoint.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "transport/lane.h"
#include "transport/tcp/mailbox.h"

namespace rondo::tcp {

// Who is at the other end, for errors.
struct LanePeer {
  Rank self = kNoRank;
  Rank peer = kNoRank;
  std::string host;
};

class SocketLane : public Lane {
 public:
  SocketLane(LanePeer names, std::uint32_t index) : names_(std::move(names)), index_(index) {}

  Rank peer() const final { return names_.peer; }
  LaneState state() const final { return state_; }
  const Error* failure() const final { return failure_ ? &*failure_ : nullptr; }

  // Takes a connected socket; the lane opens when it can do both directions.
  virtual void Adopt(Delivery delivery) = 0;
  void FailWith(Error error);
  virtual void ShutDownWriting() = 0;
  // Throws away what has arrived, so that closing is no reset for a peer that shut down too.
  virtual void DrainBeforeClose() = 0;
  // Takes note of an epoll event. True when it is news to the owner: bytes or an end to read, or room after a Write
  // that was cut short.
  virtual bool Note(std::uint32_t events) = 0;
  // Goes on sending what was accepted.
  virtual void Flush() {}

 protected:
  // Fails the lane: its socket `fd` gave `error`.
  void Broke(std::string_view doing, int error, int fd, std::uint64_t received);
  // Fails it with the peer's names added.
  void BrokeWith(const Error& error);

  const LanePeer names_;
  const std::uint32_t index_;
  LaneState state_ = LaneState::kConnecting;
  std::optional<Error> failure_;
};

}  // namespace rondo::tcp
