#include "transport/fault/connection.h"

#include <algorithm>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/post.hpp>
#include <optional>
#include <utility>

namespace rondo::fault {
namespace {

using Socket = asio::ip::tcp::socket;

constexpr int kStepsPerTurn = 64;  // after this many steps in a row, the proxy continues with its other connections

void SetUp(Socket& socket) {
  asio::error_code ignored;
  socket.non_blocking(true, ignored);
  socket.set_option(asio::ip::tcp::no_delay(true), ignored);  // otherwise the kernel would join slices again
}

void CloseWithReset(Socket& socket) {
  asio::error_code ignored;
  socket.set_option(asio::socket_base::linger(true, 0), ignored);
  socket.close(ignored);
}

}  // namespace

Connection::Connection(asio::io_context& io, const Clock& clock, ProxyCounters& counters, Socket client,
                       ConnectionSetUp set_up, std::function<void()> ended)
    : io_(io),
      clock_(clock),
      counters_(counters),
      set_up_(std::move(set_up)),
      ended_(std::move(ended)),
      client_(std::move(client)),
      server_(io),
      to_server_(io, IdentityOf(Way::kToServer), set_up_.buffer_bytes, Way::kToServer, client_, server_),
      to_client_(io, IdentityOf(Way::kToClient), set_up_.buffer_bytes, Way::kToClient, server_, client_) {}

FlowIdentity Connection::IdentityOf(Way way) const {
  // Different seeds, so that each direction has its own random numbers.
  const std::uint64_t seed = set_up_.seed ^ (way == Way::kToServer ? 0x9E3779B97F4A7C15u : 0);
  return {.listener = set_up_.listener, .way = way, .connection = set_up_.number, .seed = seed};
}

void Connection::Start() {
  server_.async_connect(set_up_.target, [self = shared_from_this()](const asio::error_code& error) {
    if (self->closed_) return;
    if (error) {
      self->counters_.unreachable.fetch_add(1, std::memory_order_release);
      return self->Reset();
    }
    SetUp(self->client_);
    SetUp(self->server_);
    self->connected_ = true;
    self->AdvanceBoth();
  });
}

void Connection::Add(const std::shared_ptr<Toxicity>& toxicity) {
  for (Pump* const pump : {&to_server_, &to_client_}) pump->flow.Add(toxicity);
  AdvanceBoth();
}

void Connection::Remove(const Toxicity& toxicity) {
  for (Pump* const pump : {&to_server_, &to_client_}) pump->flow.Remove(toxicity);
  AdvanceBoth();
}

void Connection::Hold(bool held) {
  for (Pump* const pump : {&to_server_, &to_client_}) {
    pump->flow.Hold(held);
    pump->counted_hold = false;
  }
  AdvanceBoth();
}

void Connection::AdvanceBoth() {
  if (!connected_) return;
  Advance(to_server_);
  Advance(to_client_);
}

void Connection::Advance(Pump& pump) {
  for (int i = 0; i < kStepsPerTurn; ++i) {
    if (closed_) return;
    if (!Step(pump)) return WatchSource(pump);
  }
  asio::post(io_, [self = shared_from_this(), &pump] { self->Advance(pump); });
}

bool Connection::Step(Pump& pump) {
  const TimePoint now = clock_.Now();
  const Flow::Step step = pump.flow.Next(now);
  switch (step.kind) {
    case Flow::Step::Kind::kNothing:
      // Only a Hold is counted here, because a Timeout has its own counter.
      if (pump.flow.held() && pump.flow.withholds() && !std::exchange(pump.counted_hold, true)) counters_.paused.Fire();
      return false;
    case Flow::Step::Kind::kWait:
      pump.timer.expires_after(step.until - now);
      pump.timer.async_wait([self = shared_from_this(), &pump](const asio::error_code& error) {
        if (!error) self->Advance(pump);
      });
      return false;
    case Flow::Step::Kind::kSend: return Send(pump, step.bytes);
    case Flow::Step::Kind::kEnd: {
      asio::error_code ignored;
      pump.sink.shutdown(Socket::shutdown_send, ignored);
      CloseIfOver();
      return true;
    }
    case Flow::Step::Kind::kReset: Reset(); return false;
    case Flow::Step::Kind::kOver: return false;
  }
  return false;
}

bool Connection::Send(Pump& pump, Bytes bytes) {
  if (pump.writing) return false;
  asio::error_code error;
  const std::size_t sent = pump.sink.write_some(asio::buffer(bytes.data(), bytes.size()), error);
  if (!error) {
    counters_.bytes.fetch_add(sent, std::memory_order_relaxed);
    pump.flow.Sent(sent, clock_.Now());
    return true;
  }
  if (error != asio::error::would_block && error != asio::error::try_again) {
    Reset();  // the sink has closed without reading all bytes, so the source must see a reset, too
    return false;
  }
  pump.writing = true;
  pump.sink.async_wait(Socket::wait_write, [self = shared_from_this(), &pump](const asio::error_code& failed) {
    pump.writing = false;
    if (!failed) self->Advance(pump);
  });
  return false;
}

void Connection::WatchSource(Pump& pump) {
  if (closed_ || pump.reading || pump.source_ended || pump.flow.room() == 0) return;
  pump.reading = true;
  pump.source.async_wait(Socket::wait_read, [self = shared_from_this(), &pump](const asio::error_code& error) {
    pump.reading = false;
    if (!error && !self->closed_) self->ReadSource(pump);
  });
}

void Connection::ReadSource(Pump& pump) {
  const std::size_t room = std::min(pump.flow.room(), buffer_.size());
  asio::error_code error;
  const std::size_t got = pump.source.read_some(asio::buffer(buffer_.data(), room), error);
  if (error == asio::error::would_block || error == asio::error::try_again) return WatchSource(pump);
  if (error) {
    pump.source_ended = true;
    pump.flow.ArriveEnd(error == asio::error::eof ? Flow::End::kFin : Flow::End::kReset, clock_.Now());
    Advance(pump);
    return CloseIfOver();
  }
  LookAt(pump.way, Bytes(buffer_).first(got));
  pump.flow.Arrive(Bytes(buffer_).first(got), clock_.Now());
  Advance(pump);
}

void Connection::LookAt(Way way, Bytes bytes) {
  if (!set_up_.recogniser) return;
  set_up_.recogniser->Look(way, bytes);
  Flow& flow = (way == Way::kToServer ? to_server_ : to_client_).flow;
  if (flow.has_name()) return;
  if (const auto& stream = set_up_.recogniser->stream(way)) flow.Name(stream->name, stream->begin);
}

void Connection::CloseIfOver() {
  if (closed_ || !to_server_.flow.over() || !to_client_.flow.over()) return;
  // If the proxy closed the connection before a source has ended, that source would see a reset. A source whose peer
  // has ended closes by itself.
  if (!to_server_.source_ended || !to_client_.source_ended) return;
  asio::error_code ignored;
  client_.close(ignored);
  server_.close(ignored);
  End();
}

void Connection::Reset() {
  if (closed_) return;
  CloseWithReset(client_);
  CloseWithReset(server_);
  End();
}

void Connection::End() {
  closed_ = true;
  to_server_.timer.cancel();
  to_client_.timer.cancel();
  // The callback makes the proxy drop this connection. Queued handlers keep the object alive a little longer.
  if (const auto ended = std::exchange(ended_, nullptr)) ended();
}

}  // namespace rondo::fault
