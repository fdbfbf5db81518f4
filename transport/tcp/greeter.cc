#include "transport/tcp/greeter.h"

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

constexpr int kAcceptsPerTurn = 64;  // then the control thread looks after its other work
constexpr auto kAcceptPause = std::chrono::milliseconds(100);
constexpr auto kLogInterval = std::chrono::seconds(10);

}  // namespace

// ---- Caller ----

bool Caller::SendBytes(Bytes bytes) {
  // The first bytes on this connection from our side: there is room for them.
  return wire_.SendAll(socket_.native_handle(), bytes);
}

// Where this thread has not run for a while, a caller may have lost patience: its hello is here, and so is its end.
bool Caller::HasLeft() {
  char byte = 0;
  const ssize_t next = recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return next == 0 || (next < 0 && errno != EAGAIN && errno != EINTR);
}

Fd Caller::Accept() {
  if (!socket_.is_open() || HasLeft() || !Send({})) {
    HangUp();
    return {};
  }
  timer_.cancel();
  return Fd(socket_.release());
}

void Caller::Dismiss(const Reply& reply) {
  if (!socket_.is_open()) return;
  Send(reply);
  Drain(socket_.native_handle());  // unread bytes would turn the close into a reset, which may overtake the reply
  HangUp();
}

void Caller::HangUp() {
  timer_.cancel();
  asio::error_code ignored;
  socket_.close(ignored);
}

void Caller::Hold(Duration limit, std::function<void()> gone) {
  Send({Verdict::kHeld, ErrorCode::kNotReady, ""});
  const auto ended = [self = shared_from_this(), gone = std::move(gone)](const asio::error_code& error) {
    if (error || !self->socket_.is_open()) return;
    self->HangUp();
    gone();
  };
  timer_.expires_after(limit);
  timer_.async_wait(ended);
  // Nothing may come before our acceptance, so anything readable is the end or a violation.
  socket_.async_wait(asio::posix::stream_descriptor::wait_read, ended);
}

// ---- Greeter ----

Greeter::Greeter(asio::io_context& io, const TcpOptions& options, const Clock& clock, Identity identity,
                 std::function<void(CallerPtr)> on_caller)
    : io_(io), options_(options), clock_(clock), identity_(std::move(identity)), on_caller_(std::move(on_caller)) {}

Greeter::~Greeter() = default;

Status Greeter::Add(Fd listener) {
  asio::error_code error;
  listeners_.emplace_back(io_).socket.assign(listener.get(), error);
  if (error) return Fail(ErrorCode::kResource, "cannot watch a listening socket: {}", error.message());
  listener.Release();
  return {};
}

void Greeter::Start() {
  KeepSpare();
  for (Listener& listener : listeners_) WaitForCallers(listener);
}

void Greeter::StartOver() {
  for (const CallerPtr& caller : pending_) caller->HangUp();
  pending_.clear();
  for (Listener& listener : listeners_)
    if (!listener.waits) WaitForCallers(listener);
}

void Greeter::WaitForCallers(Listener& listener) {
  listener.socket.async_wait(asio::posix::stream_descriptor::wait_read,
                             [this, &listener](const asio::error_code& error) {
                               listener.waits = false;
                               if (!error) AcceptAll(listener);
                             });
  listener.waits = true;
}

bool Greeter::AcceptOne(Listener& listener, bool has_room) {
  sockaddr_storage storage{};
  socklen_t bytes = sizeof storage;
  Fd fd(accept4(listener.socket.native_handle(), reinterpret_cast<sockaddr*>(&storage), &bytes,
                SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd) return false;
  ++options_.counters->accepted;
  Greet(std::move(fd), FromRaw(reinterpret_cast<const sockaddr*>(&storage)).value_or(SocketAddress{}), has_room);
  return true;
}

// One at a time: the descriptor is back when that one has been told.
void Greeter::AcceptBySpare(Listener& listener) {
  if (!spare_) return;
  spare_.Close();
  if (!AcceptOne(listener, /*has_room=*/false)) KeepSpare();
}

void Greeter::KeepSpare() {
  if (!spare_) spare_ = Fd(eventfd(0, EFD_CLOEXEC));
}

void Greeter::AcceptAll(Listener& listener) {
  KeepSpare();
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    if (AcceptOne(listener, /*has_room=*/true)) continue;
    if (errno == EAGAIN) break;
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      const int error = errno;
      AcceptBySpare(listener);
      return Pause(listener, error);
    }
    // Everything else (ECONNABORTED, EINTR, network errors of that connection) concerns that one caller only.
  }
  WaitForCallers(listener);
}

void Greeter::Pause(Listener& listener, int error) {
  // The listener stays readable, so waiting for it would spin; callers wait in its backlog meanwhile.
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

void Greeter::Greet(Fd fd, const SocketAddress& remote, bool has_room) {
  if (pending_.size() >= options_.max_pending_handshakes) {
    // A peer sends its hello together with connecting, so who has been silent longest is the least likely to be one;
    // and a peer would try again.
    const auto silent = std::find_if(pending_.begin(), pending_.end(), [](const auto& c) { return !c->spoke_; });
    const CallerPtr oldest = silent != pending_.end() ? *silent : pending_.front();
    ++options_.counters->evicted;
    Drop(oldest, "too many connections are pending");
  }
  const auto caller = std::make_shared<Caller>(io_, options_.token);
  caller->remote_ = remote.ToString();
  caller->has_room_ = has_room;
  asio::error_code error;
  caller->socket_.assign(fd.get(), error);
  if (error) return void(++options_.counters->turned_away);  // the socket closes; the caller tries again
  fd.Release();
  SetNoDelay(caller->socket_.native_handle());
  if (options_.tls) {
    auto session = TlsSession::Make(options_.tls, TlsSession::Role::kCalled, caller->remote_, kTlsLaneBufferBytes);
    if (!session) return void(++options_.counters->turned_away);  // likewise
    caller->wire_ = Wire(std::move(*session));
  }
  pending_.push_back(caller);
  caller->timer_.expires_after(options_.handshake_timeout);
  caller->timer_.async_wait([this, caller](const asio::error_code& failed) {
    if (failed || std::find(pending_.begin(), pending_.end(), caller) == pending_.end()) return;
    if (caller->side_.challenged()) {
      ++options_.counters->denied;
      return Drop(caller, "it did not prove in time that it knows the job's token", LogLevel::kWarning);
    }
    ++options_.counters->strangers;
    Drop(caller, caller->spoke_ ? "its hello was not complete in time" : "it said nothing");
  });
  Read(caller);
}

void Greeter::Read(const CallerPtr& caller) {
  caller->socket_.async_wait(asio::posix::stream_descriptor::wait_read, [this, caller](const asio::error_code& error) {
    if (error || !caller->socket_.is_open()) return;
    while (true) {
      std::array<std::byte, kMaxHandshakeBytes> bytes;
      const std::size_t wanted = std::min(caller->side_.wanted(), bytes.size());
      const ssize_t got = caller->wire_.Receive(caller->socket_.native_handle(), MutableBytes(bytes).first(wanted));
      caller->spoke_ = !caller->wire_.beginning().empty();
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Read(caller);
      if (got < 0 && caller->wire_.failure()) return OnTlsFailure(caller);
      if (got <= 0 && caller->side_.challenged()) {
        ++options_.counters->gave_up;  // a peer does so too, when both call at once and the other call counts
        return Drop(caller, "it went away before it had proved that it knows the job's token");
      }
      if (got <= 0) {
        // Of two that call each other at once one gives up, and may be in the midst of TLS's handshake.
        const bool spoke_tls = options_.tls && BeginsTls(caller->wire_.beginning());
        ++(spoke_tls ? options_.counters->gave_up : options_.counters->strangers);
        return Drop(caller, "it went away before its hello was complete");
      }
      const auto next = caller->side_.Feed(Bytes(bytes).first(static_cast<std::size_t>(got)));
      if (!next) return OnBroken(caller, next.error());
      if (*next == ServerHandshake::Next::kJudge) return OnHello(caller);
      if (*next == ServerHandshake::Next::kSend) caller->SendBytes(caller->side_.challenge());
    }
  });
}

void Greeter::OnBroken(const CallerPtr& caller, const Error& error) {
  switch (error.code()) {
    case ErrorCode::kVersionMismatch:
      ++options_.counters->refused;
      caller->Send({Verdict::kRefused, error.code(), "seen from there, " + error.message()});
      break;
    case ErrorCode::kAuth:
      ++options_.counters->denied;
      caller->Send({Verdict::kRefused, error.code(), error.message()});
      break;
    case ErrorCode::kResource: ++options_.counters->turned_away; break;  // it tries again
    default:
      ++options_.counters->strangers;
      // A caller that begins with TLS need not guess why nobody answers.
      if (!options_.tls && BeginsTls(caller->wire_.beginning())) caller->SendBytes(kTlsNotSpoken);
  }
  Drop(caller, error.message(), error.code() == ErrorCode::kAuth ? LogLevel::kWarning : LogLevel::kInfo);
}

// It has TLS's alert, which says why; a Rondo that speaks none gets the reply that it waits for.
void Greeter::OnTlsFailure(const CallerPtr& caller) {
  const Bytes beginning = caller->wire_.beginning();
  const std::string why = caller->wire_.failure()->message();
  MessageReader plain(MessageReader::Kind::kHello);
  if (!plain.Feed(beginning)) {
    ++(BeginsTls(beginning) ? options_.counters->denied : options_.counters->strangers);
    return Drop(caller, why, BeginsTls(beginning) ? LogLevel::kWarning : LogLevel::kInfo);
  }
  ++options_.counters->denied;
  caller->wire_ = Wire();
  caller->Send({Verdict::kRefused, ErrorCode::kAuth, "this process wants TLS, and the caller does not speak it"});
  Drop(caller, why, LogLevel::kWarning);
}

void Greeter::OnHello(const CallerPtr& caller) {
  pending_.erase(std::remove(pending_.begin(), pending_.end(), caller), pending_.end());
  caller->timer_.cancel();
  if (const Reply reply = JudgeCaller(caller->hello(), identity_); reply.verdict != Verdict::kAccepted) {
    return TurnAway(caller, reply);
  }
  if (!caller->has_room_) KeepSpare();  // some descriptor may be free by now
  if (!caller->has_room_ && !spare_) {
    return TurnAway(caller,
                    {Verdict::kTryAgain, ErrorCode::kResource, "it cannot take connections: " + SystemWords(EMFILE)});
  }
  on_caller_(caller);
}

void Greeter::Drop(const CallerPtr& caller, std::string_view why, LogLevel level) {
  pending_.erase(std::remove(pending_.begin(), pending_.end(), caller), pending_.end());
  if (caller->socket_.is_open()) Drain(caller->socket_.native_handle());
  caller->HangUp();
  LogNowAndThen(level, fmt::format("dropped a connection from {}: {}", caller->remote_, why));
}

void Greeter::TurnAway(const CallerPtr& caller, const Reply& reply) {
  if (reply.verdict == Verdict::kTryAgain) {
    ++options_.counters->turned_away;
  } else {
    ++options_.counters->refused;
    LogNowAndThen(LogLevel::kInfo,
                  fmt::format("refused rank {} at {}: {}", caller->hello().from, caller->remote(), reply.text));
  }
  caller->Dismiss(reply);
}

void Greeter::LogNowAndThen(LogLevel level, std::string_view text) {
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
