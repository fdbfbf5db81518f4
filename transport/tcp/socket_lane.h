// The functions of a lane that only its endpoint calls. The lanes of lane.h send bytes as they are. The lanes of
// tls_lane.h send them through TLS.
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

// The ranks at both ends, for error messages.
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

  // Takes a connected socket. The lane opens when both directions have a socket.
  virtual void Adopt(Delivery delivery) = 0;
  void FailWith(Error error);
  virtual void ShutDownWriting() = 0;
  // Discards all bytes that have arrived, so that closing does not reset the connection of a peer that has shut down as
  // well.
  virtual void DrainBeforeClose() = 0;
  // Notes an epoll event. True: the owner must look at the lane. Either there are bytes or an end of stream to read, or
  // there is room again after a Write that was cut short.
  virtual bool Note(std::uint32_t events) = 0;
  // Continues to send accepted bytes.
  virtual void Flush() {}

 protected:
  // Fails the lane because its socket `fd` gave `error`.
  void Broke(std::string_view doing, int error, int fd, std::uint64_t received);
  // Fails the lane with `error`, and adds the names of both ranks.
  void BrokeWith(const Error& error);

  const LanePeer names_;
  const std::uint32_t index_;
  LaneState state_ = LaneState::kConnecting;
  std::optional<Error> failure_;
};

}  // namespace rondo::tcp
