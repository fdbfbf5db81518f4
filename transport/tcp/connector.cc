#include "transport/tcp/connector.h"

#include <fmt/core.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"

namespace rondo::tcp {
namespace {

// RFC 8305 recommends 250 ms between attempts, because a lost SYN is not noticed earlier.
constexpr auto kStagger = std::chrono::milliseconds(250);
constexpr Duration kFirstPause = std::chrono::milliseconds(5);
constexpr Duration kLongestPause = std::chrono::milliseconds(500);
// A peer publishes its addresses after it has begun to listen on them. If all addresses refuse in all these rounds
// (about a third of a second in total), the peer's process has ended, or a firewall rejects connections. If this rank
// waited until the deadline instead, the error would not show which rank died.
constexpr int kRefusedRounds = 7;
constexpr std::string_view kFirewall =
    "a firewall between the hosts is the likely cause: it must let each host connect to the ports on which the other "
    "host's ranks listen; --ports FIRST-LAST or RONDO_PORTS limits these ports to a range";
constexpr std::string_view kIfFirewall =
    "If the rank still runs, the firewall must let each host connect to the ports on which the other host's ranks "
    "listen; --ports FIRST-LAST or RONDO_PORTS limits these ports to a range";

template <typename T>
void Erase(std::vector<T>& from, const T& what) {
  from.erase(std::remove(from.begin(), from.end(), what), from.end());
}

}  // namespace

Connector::Connector(asio::io_context& io, ConnectPlan plan)
    : io_(io),
      plan_(std::move(plan)),
      deadline_(io),
      reach_timer_(io),
      stagger_(io),
      reply_timer_(io),
      pause_(io),
      why_(plan_.attempts.size()),
      tries_(plan_.attempts.size()),
      taken_(plan_.attempts.size()),
      refused_(plan_.attempts.size()),
      refused_here_(plan_.attempts.size()),
      next_pause_(kFirstPause) {}

void Connector::Start(Done done) {
  done_ = std::move(done);
  deadline_.expires_after(plan_.timeout);
  deadline_.async_wait([self = shared_from_this()](const asio::error_code& error) {
    if (!error && self->done_) self->OnDeadline();
  });
  reach_timer_.expires_after(ReachTime());
  reach_timer_.async_wait([self = shared_from_this()](const asio::error_code& error) {
    if (!error && self->done_) self->OnReachTimeout();
  });
  // The first round begins in a handler, so that `done` never runs inside Start.
  pause_.expires_after(Duration::zero());
  pause_.async_wait([self = shared_from_this()](const asio::error_code& error) {
    if (!error && self->done_) self->BeginRound();
  });
}

void Connector::Cancel() {
  done_ = nullptr;
  CloseAll();
}

void Connector::CloseAll() {
  for (AwakeTimer* timer : {&deadline_, &reach_timer_, &stagger_, &reply_timer_, &pause_}) timer->cancel();
  asio::error_code ignored;
  for (const TryPtr& attempt : running_) attempt->socket.close(ignored);
  for (const TryPtr& attempt : waiting_) attempt->socket.close(ignored);
  if (shaking_) shaking_->socket.close(ignored);
  running_.clear();
  waiting_.clear();
  shaking_.reset();
}

void Connector::Finish(Result<Connected> result) {
  CloseAll();
  if (const Done done = std::exchange(done_, nullptr)) done(std::move(result));
}

void Connector::BeginRound() {
  next_ = 0;
  refusal_.reset();
  if (plan_.attempts.empty()) {
    Finish(Fail(ErrorCode::kUnreachable,
                "{} has published no address that can be reached from this host; choose other addresses on its host "
                "with --interface or --address",
                plan_.peer_name));
    return;
  }
  TryNext();
}

void Connector::TryNext() {
  if (!done_ || next_ >= plan_.attempts.size()) return;
  const std::size_t index = next_++;
  const Attempt& attempt = plan_.attempts[index];
  ++tries_[index];
  refused_[index] = false;
  refused_here_[index].clear();
  const auto source = SourceFor(attempt.at.ip, plan_.sources, plan_.rail);
  auto fd = StartConnect(attempt.at, source ? &*source : nullptr, plan_.buffer_bytes, plan_.congestion_control);
  const auto running = std::make_shared<Try>(io_, index);
  running_.push_back(running);
  Report();
  if (!fd) {
    if (fd.error().code() == ErrorCode::kResource) refused_here_[index] = fd.error().message();
    return GiveUp(running, fd.error().message());
  }
  asio::error_code error;
  running->socket.assign(fd->get(), error);
  if (error) return GiveUp(running, error.message());
  fd->Release();
  running->socket.async_wait(asio::posix::stream_descriptor::wait_write,
                             [self = shared_from_this(), running](const asio::error_code& failed) {
                               if (!failed && self->done_) self->OnConnected(running);
                             });
  stagger_.expires_after(kStagger);
  stagger_.async_wait([self = shared_from_this()](const asio::error_code& failed) {
    if (!failed && self->done_ && !self->shaking_) self->TryNext();
  });
}

void Connector::OnConnected(const TryPtr& attempt) {
  if (!attempt->socket.is_open()) return;  // the attempt was dropped before this handler ran
  if (const int error = ConnectResult(attempt->socket.native_handle()); error != 0) {
    refused_[attempt->index] = error == ECONNREFUSED;
    return GiveUp(attempt, SystemMessage(error));
  }
  taken_[attempt->index] = true;
  why_[attempt->index] = "it has accepted the connection, but has not answered yet";
  Report();
  Erase(running_, attempt);
  if (shaking_) {
    waiting_.push_back(attempt);
  } else {
    Shake(attempt);
  }
}

void Connector::Shake(const TryPtr& attempt) {
  shaking_ = attempt;
  SetNoDelay(attempt->socket.native_handle());
  if (plan_.tls) {
    auto session = TlsSession::Make(plan_.tls, TlsSession::Role::kClient, plan_.attempts[attempt->index].at.ToString(),
                                    plan_.tls_buffer_bytes);
    if (!session) return GiveUp(attempt, session.error().message());
    attempt->wire = Wire(std::move(*session));
  }
  auto side = ClientHandshake::Begin(plan_.hello, plan_.token);
  if (!side) return GiveUp(attempt, side.error().message());
  attempt->side = *std::move(side);
  if (!Send(attempt, attempt->side->hello_bytes())) return;
  reply_timer_.expires_after(plan_.handshake_timeout);
  reply_timer_.async_wait([self = shared_from_this(), attempt](const asio::error_code& error) {
    if (error || !self->done_ || self->shaking_ != attempt || attempt->held) return;
    self->GiveUp(attempt, "connected, but the handshake was not answered");
  });
  ReadReply(attempt);
}

bool Connector::Send(const TryPtr& attempt, Bytes bytes) {
  // A fresh connection has room for far more than the 1 KiB that a message may have.
  if (attempt->wire.SendAll(attempt->socket.native_handle(), bytes)) return true;
  GiveUp(attempt, fmt::format("the handshake could not be sent: {}", SystemMessage(errno)));
  return false;
}

void Connector::ReadReply(const TryPtr& attempt) {
  attempt->socket.async_wait(
      asio::posix::stream_descriptor::wait_read, [self = shared_from_this(), attempt](const asio::error_code& error) {
        if (error || !self->done_) return;
        while (true) {
          std::array<std::byte, kMaxHandshakeBytes> bytes;
          const std::size_t wanted = std::min(attempt->side->wanted(), bytes.size());
          const ssize_t got = attempt->wire.Receive(attempt->socket.native_handle(), MutableBytes(bytes).first(wanted));
          if (got < 0 && (errno == EAGAIN || errno == EINTR)) return self->ReadReply(attempt);
          if (got < 0 && attempt->wire.failure()) {
            // This error is final, because another try would end the same way.
            self->refusal_ = attempt->wire.failure()->With([&](ErrorDetails& details) {
              details.message = fmt::format("{}: {}", self->plan_.peer_name, details.message);
            });
            return self->GiveUp(attempt, attempt->wire.failure()->message());
          }
          if (got < 0) return self->GiveUp(attempt, fmt::format("handshake: {}", SystemMessage(errno)));
          if (got == 0) return self->GiveUp(attempt, "the other side closed the connection during the handshake");
          const auto next = attempt->side->Feed(Bytes(bytes).first(static_cast<std::size_t>(got)));
          if (!next) return self->OnBroken(attempt, next.error());
          if (*next == ClientHandshake::Next::kRead) continue;
          if (*next == ClientHandshake::Next::kSend) {
            if (!self->Send(attempt, attempt->side->proof())) return;
            continue;
          }
          const Reply reply = attempt->side->reply();
          self->OnReply(attempt, reply);
          if (reply.verdict != Verdict::kHeld) return;
        }
      });
}

void Connector::OnBroken(const TryPtr& attempt, const Error& error) {
  taken_[attempt->index] = false;
  if (error.code() == ErrorCode::kVersionMismatch) refusal_ = error;
  if (error.code() == ErrorCode::kAuth) {
    refusal_ = Error(error.code(), fmt::format("{} at {}: {}", plan_.peer_name,
                                               plan_.attempts[attempt->index].at.ToString(), error.message()));
  }
  GiveUp(attempt, error.message());
}

void Connector::OnReply(const TryPtr& attempt, const Reply& reply) {
  switch (reply.verdict) {
    case Verdict::kHeld:  // the server is a peer, so only the overall deadline ends this wait
      attempt->held = true;
      why_[attempt->index] = "it answered, but has not opened the communicator yet";
      Report();
      return;
    case Verdict::kAccepted: {
      Fd fd(attempt->socket.release());
      Finish(Connected{std::move(fd), std::move(attempt->wire), plan_.attempts[attempt->index]});
      return;
    }
    case Verdict::kRefused:
      taken_[attempt->index] = false;
      refusal_ = Error(reply.code, fmt::format("{} at {} refused the connection: {}", plan_.peer_name,
                                               plan_.attempts[attempt->index].at.ToString(), reply.text));
      return GiveUp(attempt, reply.text);
    case Verdict::kTryAgain:
      // Only the intended process sends this reply, so refusals by other processes at the peer's addresses do not
      // matter.
      refusal_.reset();
      DropAllOthers();
      if (reply.code == ErrorCode::kResource) lacks_ = reply.text;
      return GiveUp(attempt, reply.text);
    case Verdict::kProve: RONDO_CHECK(false, "ClientHandshake answers it");
  }
}

void Connector::GiveUp(const TryPtr& attempt, std::string why) {
  why_[attempt->index] = std::move(why);
  Report();
  asio::error_code ignored;
  attempt->socket.close(ignored);
  Erase(running_, attempt);
  Erase(waiting_, attempt);
  if (shaking_ == attempt) {
    shaking_.reset();
    reply_timer_.cancel();
  }
  if (!shaking_ && !waiting_.empty()) {
    const TryPtr next = waiting_.front();
    waiting_.erase(waiting_.begin());
    return Shake(next);
  }
  if (shaking_) return;
  if (next_ < plan_.attempts.size()) return TryNext();
  if (running_.empty()) EndRound();
}

void Connector::DropAllOthers() {
  next_ = plan_.attempts.size();
  for (auto* const tries : {&running_, &waiting_}) {
    asio::error_code ignored;
    for (const TryPtr& one : *tries) one->socket.close(ignored);
    tries->clear();
  }
}

void Connector::EndRound() {
  stagger_.cancel();
  if (refusal_) return Finish(Fail(*refusal_));
  const bool all_refused = std::find(refused_.begin(), refused_.end(), false) == refused_.end();
  refused_rounds_ = all_refused ? refused_rounds_ + 1 : 0;
  // The peer reported that it lacks a resource, and has then stopped listening. So the lack is the cause, and no
  // further round would find another cause.
  if (all_refused && !lacks_.empty())
    return Finish(Fail(ErrorCode::kPeerLost, "{} has ended: {}", plan_.peer_name, WhatWasTried()));
  if (refused_rounds_ >= kRefusedRounds)
    return Finish(Fail(ErrorCode::kPeerLost,
                       "{} ended (normally or not) before this rank connected to it, or a firewall rejects the "
                       "connections. All its addresses refuse connections: {}. {}",
                       plan_.peer_name, WhatWasTried(), kIfFirewall));
  pause_.expires_after(next_pause_);
  next_pause_ = std::min(next_pause_ * 2, kLongestPause);
  pause_.async_wait([self = shared_from_this()](const asio::error_code& error) {
    if (!error && self->done_) self->BeginRound();
  });
}

std::string Connector::WhatWasTried() const {
  std::string list;
  for (std::size_t i = 0; i < plan_.attempts.size(); ++i) {
    const Attempt& attempt = plan_.attempts[i];
    const std::string why = tries_[i] == 0 ? "not reached in time" : why_[i].empty() ? "no answer" : why_[i];
    list += fmt::format("{}{}{} ({}): {}{}", list.empty() ? "" : "; ", attempt.at.ToString(),
                        attempt.interface.empty() ? "" : " via " + attempt.interface, attempt.reason, why,
                        tries_[i] > 1 ? fmt::format(" ({} tries)", tries_[i]) : "");
  }
  if (!lacks_.empty() && list.find(lacks_) == std::string::npos) list += "; it reported before: " + lacks_;
  return list;
}

// Returns why this system itself refused to connect to one of the addresses. If it did, the peer is not at fault.
std::string Connector::WhyRefusedHere() const {
  const auto refused =
      std::find_if(refused_here_.begin(), refused_here_.end(), [](const auto& why) { return !why.empty(); });
  return refused == refused_here_.end() ? "" : *refused;
}

void Connector::Report() const {
  if (plan_.report && done_) plan_.report(WhatWasTried());
}

// The result is shorter than the timeout of the waiting operation, because the error of that timeout would say less.
Duration Connector::ReachTime() const { return std::min<Duration>(plan_.reach_timeout, plan_.timeout / 4 * 3); }

// A peer that has accepted a connection may use the whole timeout to open its communicator.
void Connector::OnReachTimeout() {
  if (std::find(taken_.begin(), taken_.end(), true) != taken_.end()) return;
  if (const std::string why = WhyRefusedHere(); !why.empty())
    return Finish(Fail(ErrorCode::kResource, "this rank cannot start a connection to {}: {}", plan_.peer_name, why));
  Finish(Fail(ErrorCode::kUnreachable,
              "no connection to {}, because none of its addresses accepted one within {:.3g} s: {}; {}. Other "
              "addresses can be chosen with --interface or --address on either side",
              plan_.peer_name, std::chrono::duration<double>(ReachTime()).count(), WhatWasTried(), kFirewall));
}

void Connector::OnDeadline() {
  const bool answered = shaking_ && shaking_->held;
  const std::string list = WhatWasTried();
  const auto seconds = std::chrono::duration<double>(plan_.timeout).count();
  if (answered) {
    return Finish(Fail(ErrorCode::kTimeout, "{} did not open the communicator within {:.3g} s: {}", plan_.peer_name,
                       seconds, list));
  }
  if (const std::string why = WhyRefusedHere(); !why.empty())
    return Finish(Fail(ErrorCode::kResource, "this rank could not start a connection to {} within {:.3g} s: {}",
                       plan_.peer_name, seconds, why));
  Finish(Fail(ErrorCode::kUnreachable,
              "no connection to {} within {:.3g} s: {}. Other addresses can be chosen with --interface or --address on "
              "either side",
              plan_.peer_name, seconds, list));
}

}  // namespace rondo::tcp
