#include "transport/tcp/socket_lane.h"

#include <fmt/core.h>

#include "transport/tcp/socket.h"

namespace rondo::tcp {

void SocketLane::FailWith(Error error) {
  if (state_ == LaneState::kFailed) return;
  state_ = LaneState::kFailed;
  failure_ = std::move(error);
}

void SocketLane::Broke(std::string_view doing, int error, int fd, std::uint64_t received) {
  const SocketAddress address = PeerSocketAddress(fd);
  ErrorDetails details;
  details.code = ErrorCode::kConnectionReset;
  details.message = fmt::format("lane {} with rank {} broke while {}: {} ({} bytes sent, {} received)", index_,
                                names_.peer, doing, SystemMessage(error), accepted(), received);
  details.rank = names_.self;
  details.culprit = names_.peer;
  details.host = names_.host;
  if (address.port != 0) details.address = address.ToString();
  FailWith(Error(std::move(details)));
}

void SocketLane::BrokeWith(const Error& error) {
  FailWith(error.With([&](ErrorDetails& details) {
    details.message = fmt::format("lane {} with rank {} broke: {}", index_, names_.peer, details.message);
    details.rank = names_.self;
    details.culprit = names_.peer;
    details.host = names_.host;
  }));
}

}  // namespace rondo::tcp
