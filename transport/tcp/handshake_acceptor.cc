#include "transport/tcp/handshake_acceptor.h"

#include <fmt/core.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "transport/tcp/tls_lane.h"

namespace rondo::tcp {
namespace {

constexpr int kAcceptsPerTurn = 64;  // after this many connections in a row, the control thread does its other work
constexpr auto kAcceptPause = std::chrono::milliseconds(100);
constexpr auto kLogInterval = std::chrono::seconds(10);

}  // namespace

// ---- IncomingConnection ----

bool IncomingConnection::SendBytes(Bytes bytes) {
  // These are the first bytes that this process sends on the connection, so the socket has room for them.
  return wire_.SendAll(socket_.native_handle(), bytes);
}

// If this thread has not run for a while, the client may have given up. Then its hello has arrived, and after it the
// end of its stream.
bool IncomingConnection::HasLeft() {
  char byte = 0;
  const ssize_t next = recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return next == 0 || (next < 0 && errno != EAGAIN && errno != EINTR);
}

Fd IncomingConnection::Accept() {
  if (!socket_.is_open() || HasLeft() || !Send({})) {
    HangUp();
    return {};
  }
  timer_.cancel();
  return Fd(socket_.release());
}

void IncomingConnection::Dismiss(const Reply& reply) {
  if (!socket_.is_open()) return;
  Send(reply);
  Drain(socket_.native_handle());  // unread bytes would turn the close into a reset, which may overtake the reply
  HangUp();
}

void IncomingConnection::HangUp() {
  timer_.cancel();
  asio::error_code ignored;
  socket_.close(ignored);
}

void IncomingConnection::Hold(Duration limit, std::function<void()> gone) {
  Send({Verdict::kHeld, ErrorCode::kNotReady, ""});
  const auto ended = [self = shared_from_this(), gone = std::move(gone)](const asio::error_code& error) {
    if (error || !self->socket_.is_open()) return;
    self->HangUp();
    gone();
  };
  timer_.expires_after(limit);
  timer_.async_wait(ended);
  // A client must send nothing before its acceptance, so anything readable is the end or a protocol violation.
  socket_.async_wait(asio::posix::stream_descriptor::wait_read, ended);
}

// ---- HandshakeAcceptor ----

HandshakeAcceptor::HandshakeAcceptor(asio::io_context& io, const TcpOptions& options, const Clock& clock,
                                     Identity identity, std::function<void(IncomingPtr)> on_connection)
    : io_(io),
      options_(options),
      clock_(clock),
      identity_(std::move(identity)),
      on_connection_(std::move(on_connection)) {}

HandshakeAcceptor::~HandshakeAcceptor() = default;

Status HandshakeAcceptor::Add(Fd listener) {
  asio::error_code error;
  listeners_.emplace_back(io_).socket.assign(listener.get(), error);
  if (error) return Fail(ErrorCode::kResource, "cannot watch a listening socket: {}", error.message());
  listener.Release();
  return {};
}

void HandshakeAcceptor::Start() {
  KeepSpare();
  for (Listener& listener : listeners_) WaitForConnections(listener);
}

void HandshakeAcceptor::DropPending() {
  for (const IncomingPtr& connection : pending_) connection->HangUp();
  pending_.clear();
  for (Listener& listener : listeners_)
    if (!listener.waits) WaitForConnections(listener);
}

void HandshakeAcceptor::WaitForConnections(Listener& listener) {
  listener.socket.async_wait(asio::posix::stream_descriptor::wait_read,
                             [this, &listener](const asio::error_code& error) {
                               listener.waits = false;
                               if (!error) AcceptAll(listener);
                             });
  listener.waits = true;
}

bool HandshakeAcceptor::AcceptOne(Listener& listener, bool has_room) {
  sockaddr_storage storage{};
  socklen_t bytes = sizeof storage;
  Fd fd(accept4(listener.socket.native_handle(), reinterpret_cast<sockaddr*>(&storage), &bytes,
                SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd) return false;
  ++options_.counters->accepted;
  StartHandshake(std::move(fd), FromRaw(reinterpret_cast<const sockaddr*>(&storage)).value_or(SocketAddress{}),
                 has_room);
  return true;
}

// Accepts one client at a time, because the spare descriptor is free again only when that client has its reply.
void HandshakeAcceptor::AcceptBySpare(Listener& listener) {
  if (!spare_) return;
  spare_.Close();
  if (!AcceptOne(listener, /*has_room=*/false)) KeepSpare();
}

void HandshakeAcceptor::KeepSpare() {
  if (!spare_) spare_ = Fd(eventfd(0, EFD_CLOEXEC));
}

void HandshakeAcceptor::AcceptAll(Listener& listener) {
  KeepSpare();
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    if (AcceptOne(listener, /*has_room=*/true)) continue;
    if (errno == EAGAIN) break;
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      const int error = errno;
      AcceptBySpare(listener);
      return Pause(listener, error);
    }
    // Errors such as ECONNABORTED, EINTR and network errors of that connection affect only this one client.
  }
  WaitForConnections(listener);
}

void HandshakeAcceptor::Pause(Listener& listener, int error) {
  // The listener stays readable, so this thread would spin if it waited for the listener now. During the pause clients
  // wait in the listener's backlog.
  ++options_.counters->accept_errors;
  LogNowAndThen(LogLevel::kWarning,
                SystemError(error, "cannot accept connections for now", ErrorCode::kResource).ToString());
  const auto timer = std::make_shared<asio::steady_timer>(io_, kAcceptPause);
  timer->async_wait([this, timer, &listener](const asio::error_code& failed) {
    listener.waits = false;
    if (!failed) AcceptAll(listener);
  });
  listener.waits = true;
}

void HandshakeAcceptor::StartHandshake(Fd fd, const SocketAddress& remote, bool has_room) {
  if (pending_.size() >= options_.max_pending_handshakes) {
    // A peer sends its hello as soon as it has connected. So the client that has been silent for longest is the least
    // likely to be a peer. If it is a peer, it tries again.
    const auto silent = std::find_if(pending_.begin(), pending_.end(), [](const auto& c) { return !c->spoke_; });
    const IncomingPtr oldest = silent != pending_.end() ? *silent : pending_.front();
    ++options_.counters->evicted;
    Drop(oldest, "too many connections are pending");
  }
  const auto connection = std::make_shared<IncomingConnection>(io_, options_.token);
  connection->remote_ = remote.ToString();
  connection->has_room_ = has_room;
  asio::error_code error;
  connection->socket_.assign(fd.get(), error);
  if (error) return void(++options_.counters->retry_requested);  // the socket closes; the client tries again
  fd.Release();
  SetNoDelay(connection->socket_.native_handle());
  if (options_.tls) {
    auto session = TlsSession::Make(options_.tls, TlsSession::Role::kServer, connection->remote_, kTlsLaneBufferBytes);
    if (!session) return void(++options_.counters->retry_requested);  // the client tries again
    connection->wire_ = Wire(std::move(*session));
  }
  pending_.push_back(connection);
  connection->timer_.expires_after(options_.handshake_timeout);
  connection->timer_.async_wait([this, connection](const asio::error_code& failed) {
    if (failed || std::find(pending_.begin(), pending_.end(), connection) == pending_.end()) return;
    if (connection->side_.challenged()) {
      ++options_.counters->auth_failed;
      return Drop(connection, "it did not prove in time that it knows the job's token", LogLevel::kWarning);
    }
    ++options_.counters->unknown;
    Drop(connection, connection->spoke_ ? "its hello was not complete in time" : "it sent nothing");
  });
  Read(connection);
}

void HandshakeAcceptor::Read(const IncomingPtr& connection) {
  connection->socket_.async_wait(
      asio::posix::stream_descriptor::wait_read, [this, connection](const asio::error_code& error) {
        if (error || !connection->socket_.is_open()) return;
        while (true) {
          std::array<std::byte, kMaxHandshakeBytes> bytes;
          const std::size_t wanted = std::min(connection->side_.wanted(), bytes.size());
          const ssize_t got =
              connection->wire_.Receive(connection->socket_.native_handle(), MutableBytes(bytes).first(wanted));
          connection->spoke_ = !connection->wire_.beginning().empty();
          if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Read(connection);
          if (got < 0 && connection->wire_.failure()) return OnTlsFailure(connection);
          if (got <= 0 && connection->side_.challenged()) {
            // A peer also closes a connection if both connect at once and the other connection is kept.
            ++options_.counters->abandoned;
            return Drop(connection, "it disconnected before it proved that it knows the job's token");
          }
          if (got <= 0) {
            // If two peers connect to each other at once, one of them gives up its connection, perhaps during TLS's
            // handshake.
            const bool spoke_tls = options_.tls && BeginsTls(connection->wire_.beginning());
            ++(spoke_tls ? options_.counters->abandoned : options_.counters->unknown);
            return Drop(connection, "it disconnected before its hello was complete");
          }
          const auto next = connection->side_.Feed(Bytes(bytes).first(static_cast<std::size_t>(got)));
          if (!next) return OnBroken(connection, next.error());
          if (*next == ServerHandshake::Next::kJudge) return OnHello(connection);
          if (*next == ServerHandshake::Next::kSend) connection->SendBytes(connection->side_.challenge());
        }
      });
}

void HandshakeAcceptor::OnBroken(const IncomingPtr& connection, const Error& error) {
  switch (error.code()) {
    case ErrorCode::kVersionMismatch:
      ++options_.counters->refused;
      connection->Send({Verdict::kRefused, error.code(), "as that process sees it, " + error.message()});
      break;
    case ErrorCode::kAuth:
      ++options_.counters->auth_failed;
      connection->Send({Verdict::kRefused, error.code(), error.message()});
      break;
    case ErrorCode::kResource: ++options_.counters->retry_requested; break;  // the client tries again
    default:
      ++options_.counters->unknown;
      // This reply gives a TLS client the reason why the connection ends.
      if (!options_.tls && BeginsTls(connection->wire_.beginning())) connection->SendBytes(kTlsNotSpoken);
  }
  Drop(connection, error.message(), error.code() == ErrorCode::kAuth ? LogLevel::kWarning : LogLevel::kInfo);
}

// TLS has sent the client an alert with the reason. A Rondo process without TLS gets the reply that it waits for.
void HandshakeAcceptor::OnTlsFailure(const IncomingPtr& connection) {
  const Bytes beginning = connection->wire_.beginning();
  const std::string why = connection->wire_.failure()->message();
  MessageReader plain(MessageReader::Kind::kHello);
  if (!plain.Feed(beginning)) {
    ++(BeginsTls(beginning) ? options_.counters->auth_failed : options_.counters->unknown);
    return Drop(connection, why, BeginsTls(beginning) ? LogLevel::kWarning : LogLevel::kInfo);
  }
  ++options_.counters->auth_failed;
  connection->wire_ = Wire();
  connection->Send({Verdict::kRefused, ErrorCode::kAuth, "this process requires TLS, but the client does not use it"});
  Drop(connection, why, LogLevel::kWarning);
}

void HandshakeAcceptor::OnHello(const IncomingPtr& connection) {
  pending_.erase(std::remove(pending_.begin(), pending_.end(), connection), pending_.end());
  connection->timer_.cancel();
  if (const Reply reply = JudgeHello(connection->hello(), identity_); reply.verdict != Verdict::kAccepted) {
    return Reject(connection, reply);
  }
  if (!connection->has_room_) KeepSpare();  // a descriptor may be free by now
  if (!connection->has_room_ && !spare_) {
    return Reject(connection,
                  {Verdict::kTryAgain, ErrorCode::kResource, "it cannot accept connections: " + SystemWords(EMFILE)});
  }
  on_connection_(connection);
}

void HandshakeAcceptor::Drop(const IncomingPtr& connection, std::string_view why, LogLevel level) {
  pending_.erase(std::remove(pending_.begin(), pending_.end(), connection), pending_.end());
  if (connection->socket_.is_open()) Drain(connection->socket_.native_handle());
  connection->HangUp();
  LogNowAndThen(level, fmt::format("dropped a connection from {}: {}", connection->remote_, why));
}

void HandshakeAcceptor::Reject(const IncomingPtr& connection, const Reply& reply) {
  if (reply.verdict == Verdict::kTryAgain) {
    ++options_.counters->retry_requested;
  } else {
    ++options_.counters->refused;
    LogNowAndThen(LogLevel::kInfo,
                  fmt::format("refused rank {} at {}: {}", connection->hello().from, connection->remote(), reply.text));
  }
  connection->Dismiss(reply);
}

void HandshakeAcceptor::LogNowAndThen(LogLevel level, std::string_view text) {
  const TimePoint now = clock_.Now();
  if (now < next_log_) {
    ++unlogged_;
    return;
  }
  next_log_ = now + kLogInterval;
  const std::uint64_t unlogged = std::exchange(unlogged_, 0);
  Log(options_.logger, level, "tcp: {}{}", text, unlogged == 0 ? "" : fmt::format(" ({} more like it)", unlogged));
}

}  // namespace rondo::tcp
