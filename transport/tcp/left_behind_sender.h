// The control connection of a peer that connects only after this rank's endpoint has been destroyed. It carries the
// message that the endpoint left behind (Endpoint::LeaveBehind), and ends when the peer has closed the connection or a
// limit has passed. Until then the connection stays open. If it were closed earlier, bytes that the peer still sends
// would cause a reset, which may overtake the message.
//
// Thread rule: the control thread. The object keeps itself alive until its connection ends.
#pragma once

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <memory>
#include <string_view>

#include "base/clock.h"
#include "base/net/fd.h"
#include "base/wire.h"
#include "transport/tcp/awake_timer.h"

namespace rondo::tcp {

class LeftBehindSender : public std::enable_shared_from_this<LeftBehindSender> {
 public:
  // `fd`: an accepted connection. `frame`: a control frame.
  static void Send(asio::io_context& io, Fd fd, Wire wire, std::string_view frame, Duration limit);
  explicit LeftBehindSender(asio::io_context& io) : socket_(io), limit_(io) {}

 private:
  void AwaitEnd();
  void End();

  asio::posix::stream_descriptor socket_;
  AwakeTimer limit_;
};

}  // namespace rondo::tcp
