// The listening side: accepts connections and reads their hello, in bounded number and time. Foreign clients (other
// protocols, random bytes, silence) are dropped, counted and logged now and then; they never get a reply (but for TLS's
// own alerts) and never disturb the job. Nor does who cannot prove to know the job's token, who is told no more than
// that.
//
// Thread rule: the control thread; the constructor and the destructor while it does not run.
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

// A connection whose hello was read and that waits for our verdict.
class IncomingConnection : public std::enable_shared_from_this<IncomingConnection> {
 public:
  IncomingConnection(asio::io_context& io, std::shared_ptr<const JobToken> token)
      : socket_(io), timer_(io), side_(std::move(token)) {}

  const Hello& hello() const { return side_.hello(); }
  const std::string& remote() const { return remote_; }

  // Whether it closed the connection while nobody looked.
  bool HasLeft();
  // Sends the acceptance and gives the socket away. Empty: the client is gone.
  Fd Accept();
  // What to read and write it through, after Accept.
  Wire TakeWire() { return std::move(wire_); }
  // Sends a reply that ends the connection.
  void Dismiss(const Reply& reply);
  // Ends the connection without a word, taking no memory. A peer tries again.
  void HangUp();
  // Tells the client to wait; `gone` is called if it goes away (or breaks the protocol by talking) meanwhile, or when
  // `limit` has passed.
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
  bool spoke_ = false;    // at least one byte came
  bool has_room_ = true;  // false: taken only to be told that no descriptor is left here
};
using IncomingPtr = std::shared_ptr<IncomingConnection>;

class HandshakeAcceptor {
 public:
  // `options` outlives the acceptor. `identity`: who this process is. `on_connection` gets the clients that belong to
  // this job, generation and process.
  HandshakeAcceptor(asio::io_context& io, const TcpOptions& options, const Clock& clock, Identity identity,
                    std::function<void(IncomingPtr)> on_connection);
  ~HandshakeAcceptor();

  // Takes over a listening socket.
  Status Add(Fd listener);
  void Start();

  // Dismisses a client with a verdict that ends its connection, and counts it.
  void Reject(const IncomingPtr& connection, const Reply& reply);
  // After an exception from a handler. It may have left a client whom nobody reads: all whose hello has not come yet
  // are hung up on, and try again. Waits for clients wherever nobody does.
  void DropPending();

 private:
  struct Listener {
    explicit Listener(asio::io_context& io) : socket(io) {}
    asio::posix::stream_descriptor socket;
    bool waits = false;  // something is going to call AcceptAll
  };

  void WaitForConnections(Listener& listener);
  void AcceptAll(Listener& listener);
  void Pause(Listener& listener, int error);
  bool AcceptOne(Listener& listener, bool has_room);  // false: errno says why not
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
  // Given up where the process has no descriptor left, so that a client can be taken and told.
  Fd spare_;
  std::deque<IncomingPtr> pending_;  // oldest first, at most max_pending_handshakes
  TimePoint next_log_{};
  std::uint64_t unlogged_ = 0;
};

}  // namespace rondo::tcp
