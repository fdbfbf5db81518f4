// The listening side accepts connections and reads a hello from each. The number of pending connections and the time
// for a hello are limited. Foreign clients (other protocols, random bytes, silence) are dropped and counted, and log
// lines about them are limited in rate. Foreign clients get no reply except TLS alerts, and never disturb the
// job. An unauthenticated client does not disturb the job either, and learns only that it has not proved that it knows
// the token.
//
// Thread rule: the control thread. The constructor and the destructor must run while the control thread does not run.
#pragma once

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/wire.h"
#include "transport/tcp/awake_timer.h"
#include "transport/tcp/handshake.h"
#include "transport/tcp/handshake_sides.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/tcp.h"

namespace rondo::tcp {

// An accepted connection for which no verdict was sent yet.
class IncomingConnection : public std::enable_shared_from_this<IncomingConnection> {
 public:
  IncomingConnection(asio::io_context& io, std::shared_ptr<const JobToken> token)
      : socket_(io), timer_(io), side_(std::move(token)) {}

  const Hello& hello() const { return side_.hello(); }
  const std::string& remote() const { return remote_; }

  // Whether the client has closed the connection.
  bool HasLeft();
  // Sends the acceptance and returns the socket. Empty: the client has closed the connection.
  Fd Accept();
  // Returns the object that reads and writes the socket. Call it after Accept.
  Wire TakeWire() { return std::move(wire_); }
  // Sends a reply after which the connection ends.
  void Dismiss(const Reply& reply);
  // Closes the connection without a reply, and without allocating. A client that is a peer tries again.
  void HangUp();
  // Asks the client to wait. `gone` is called if the client closes the connection or sends anything before its verdict,
  // or if `limit` passes first.
  void Hold(Duration limit, std::function<void()> gone);

 private:
  friend class HandshakeAcceptor;
  bool Send(const Reply& reply) { return SendBytes(side_.Encode(reply)); }
  bool SendBytes(Bytes bytes);

  asio::posix::stream_descriptor socket_;
  AwakeTimer timer_;
  ServerHandshake side_;
  Wire wire_;
  std::string remote_;
  bool spoke_ = false;    // at least one byte has arrived
  bool has_room_ = true;  // false: accepted only to report to the client that this process has no descriptor left
};
using IncomingPtr = std::shared_ptr<IncomingConnection>;

class HandshakeAcceptor {
 public:
  // `options` must outlive the acceptor. `identity`: the values against which hellos are checked. `on_connection` gets
  // the connections of clients that belong to this job and generation, and want to reach this process.
  HandshakeAcceptor(asio::io_context& io, const TcpOptions& options, const Clock& clock, Identity identity,
                    std::function<void(IncomingPtr)> on_connection);
  ~HandshakeAcceptor();

  // Takes over a listening socket.
  Status Add(Fd listener);
  void Start();

  // Ends a connection with a verdict, and counts it.
  void Reject(const IncomingPtr& connection, const Reply& reply);
  // Must be called after an exception in a handler, because some connections may then never be read. Closes all
  // connections whose hello has not arrived yet; their clients try again. Resumes accepting on listeners for which no
  // handler waits.
  void DropPending();

 private:
  struct Listener {
    explicit Listener(asio::io_context& io) : socket(io) {}
    asio::posix::stream_descriptor socket;
    bool waits = false;  // a pending handler of this listener will call AcceptAll
  };

  void WaitForConnections(Listener& listener);
  void AcceptAll(Listener& listener);
  void Pause(Listener& listener, int error);
  bool AcceptOne(Listener& listener, bool has_room);  // false: errno says why nothing was accepted
  void AcceptBySpare(Listener& listener);
  void KeepSpare();
  void StartHandshake(Fd fd, const SocketAddress& remote, bool has_room);
  void Read(const IncomingPtr& connection);
  void OnBroken(const IncomingPtr& connection, const Error& error);
  void OnHello(const IncomingPtr& connection);
  void OnTlsFailure(const IncomingPtr& connection);
  void Drop(const IncomingPtr& connection, std::string_view why, LogLevel level = LogLevel::kInfo);
  void LogNowAndThen(LogLevel level, std::string_view text);

  asio::io_context& io_;
  const TcpOptions& options_;
  const Clock& clock_;
  const Identity identity_;
  const std::function<void(IncomingPtr)> on_connection_;
  std::list<Listener> listeners_;
  // A spare descriptor. If the process has no other descriptor left, the spare one is closed. Then a client can be
  // accepted and get the reason why it is rejected.
  Fd spare_;
  std::deque<IncomingPtr> pending_;  // oldest first, at most max_pending_handshakes
  TimePoint next_log_{};
  std::uint64_t unlogged_ = 0;
};

}  // namespace rondo::tcp
