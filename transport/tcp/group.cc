#include "transport/tcp/group.h"

#include <fmt/core.h>
#include <sys/socket.h>

#include <array>
#include <asio/post.hpp>
#include <utility>

#include "base/check.h"
#include "transport/lane_index.h"
#include "transport/tcp/tls_lane.h"

namespace rondo::tcp {
namespace {

constexpr int kReadsPerTurn = 16;  // after so many reads in a row, the control thread does its other work

// Whether a stream of a lane carries the bytes that this rank sends.
bool CarriesOurs(std::uint8_t streams, std::uint8_t stream, bool we_called) {
  return streams == 1 || (stream == 0) == we_called;
}

}  // namespace

Group::Group(const GroupContext& context, GroupConfig config) : context_(context), config_(std::move(config)) {
  for (const TcpAddress& peer : config_.peers) instances_.push_back(peer.instance);
}

std::string Group::NameOf(Rank peer) const {
  const std::string& host = AddressOf(peer).host;
  return host.empty() ? fmt::format("rank {}", peer) : fmt::format("rank {} (host {})", peer, host);
}

bool Group::SameHostAs(Rank peer) const { return SameHost(context_.self, AddressOf(peer)); }

bool Group::SplitsLanesTo(Rank peer) const {
  return context_.options.split_local_lanes && context_.options.tls == nullptr && SameHostAs(peer);
}

const std::vector<std::string>& Group::CongestionControlFor(Rank peer, bool we_called) const {
  const TcpOptions& options = context_.options;
  if (SameHostAs(peer)) return options.local_congestion_control;
  return we_called || !options.remote_congestion_control.empty() ? options.remote_congestion_control
                                                                 : context_.system_congestion_control;
}

Error Group::ErrorAbout(Rank peer, ErrorCode code, std::string message, const std::string& address) const {
  ErrorDetails details;
  details.code = code;
  details.message = std::move(message);
  details.rank = config_.rank;
  details.culprit = peer;
  details.host = AddressOf(peer).host;
  details.address = address;
  return Error(std::move(details));
}

// ---- any thread ----

std::shared_ptr<ControlChannel> Group::ChannelTo(Rank rank) {
  const std::lock_guard lock(view_mutex_);
  if (const auto found = channels_.find(rank); found != channels_.end()) return found->second;
  auto channel = std::make_shared<ControlChannel>([weak = weak_from_this(), rank, &io = context_.io] {
    asio::post(io, [weak, rank] {
      if (const auto self = weak.lock()) self->WatchFlush(rank);
    });
  });
  channels_.emplace(rank, channel);
  if (!left_behind_.empty()) {
    channel->Send(left_behind_);
    channel->FinishWriting();
  }
  return channel;
}

void Group::Expect(Rank peer) { ChannelTo(peer); }

bool Group::SendControl(Rank peer, const ControlMessage& message) {
  std::shared_ptr<ControlChannel> channel;
  {
    const std::lock_guard lock(view_mutex_);
    const auto found = channels_.find(peer);
    if (found == channels_.end()) return false;
    channel = found->second;
  }
  return channel->Send(EncodeControl(message));
}

void Group::LeaveBehind(const ControlMessage& message) {
  const std::lock_guard lock(view_mutex_);
  left_behind_ = EncodeControl(message);
}

std::string Group::left_behind() const {
  const std::lock_guard lock(view_mutex_);
  return left_behind_;
}

std::vector<Rank> Group::ControlPeers() const {
  const std::lock_guard lock(view_mutex_);
  std::vector<Rank> peers;
  for (const auto& [rank, channel] : channels_) {
    if (!channel->ended()) peers.push_back(rank);
  }
  return peers;
}

bool Group::IsConnected(Rank peer) const {
  const std::lock_guard lock(view_mutex_);
  const auto channel = channels_.find(peer);
  return channel != channels_.end() && !channel->second->ended() && paths_.count(peer) > 0;
}

bool Group::ControlFlushed() const {
  const std::lock_guard lock(view_mutex_);
  for (const auto& [rank, channel] : channels_) {
    if (!channel->flushed()) return false;
  }
  return true;
}

std::string Group::DescribePeer(Rank peer) const {
  if (peer == config_.rank) return "this process";
  const std::lock_guard lock(view_mutex_);
  const auto found = paths_.find(peer);
  std::string text = found == paths_.end() ? "not connected" : found->second;
  if (const auto attempt = attempts_.find(peer); found == paths_.end() && attempt != attempts_.end())
    text += ": " + attempt->second;
  if (const auto rails = rails_.find(peer); rails != rails_.end())
    for (const auto& [rail, path] : rails->second) text += fmt::format("; rail {}: {}", rail, path);
  return text;
}

LinkEnd Group::LinkTo(Rank peer) const {
  const std::lock_guard lock(view_mutex_);
  const auto found = links_.find(peer);
  return found == links_.end() ? LinkEnd{} : found->second;
}

// ---- control connections ----

Group::PeerPtr Group::PeerAt(Rank rank) {
  if (const auto found = peers_.find(rank); found != peers_.end()) return found->second;
  auto peer = std::make_shared<Peer>(context_.io, rank);
  peer->channel = ChannelTo(rank);
  peers_.emplace(rank, peer);
  return peer;
}

std::shared_ptr<Connector> Group::MakeConnector(Rank peer, ConnectionKind kind, std::uint32_t index,
                                                std::uint8_t streams, std::uint8_t stream) {
  ConnectPlan plan;
  const std::uint32_t rail = config_.rail + (kind == ConnectionKind::kLane ? RailOfLane(index) : 0);
  plan.attempts = InTurn(OrderAttempts(context_.self, context_.local, AddressOf(peer)), rail);
  plan.hello.kind = kind;
  plan.hello.streams = streams;
  plan.hello.stream = stream;
  plan.hello.index = index;
  plan.hello.rail = config_.rail;
  plan.hello.communicator = config_.communicator;
  plan.hello.generation = context_.options.generation;
  plan.hello.from = config_.rank;
  plan.hello.to = peer;
  plan.hello.job = context_.options.job;
  plan.hello.from_instance = context_.self.instance;
  plan.hello.to_instance = AddressOf(peer).instance;
  plan.token = context_.options.token;
  if (!context_.options.addresses.empty()) plan.sources = context_.self.candidates;
  plan.rail = rail;
  plan.buffer_bytes = kind == ConnectionKind::kLane ? context_.options.socket_buffer_bytes : 0;
  plan.congestion_control = CongestionControlFor(peer, /*we_called=*/true);
  plan.tls = context_.options.tls;
  plan.tls_buffer_bytes = kind == ConnectionKind::kLane ? kTlsLaneBufferBytes : kTlsSmallBuffer;
  plan.timeout = config_.connect_timeout;
  plan.reach_timeout = context_.options.reach_timeout;
  plan.handshake_timeout = context_.options.handshake_timeout;
  plan.peer_name = NameOf(peer);
  if (kind == ConnectionKind::kControl) {
    plan.report = [this, peer](std::string how) {  // the connector belongs to this group, so the group outlives it
      const std::lock_guard lock(view_mutex_);
      attempts_[peer] = std::move(how);
    };
  }
  return std::make_shared<Connector>(context_.io, std::move(plan));
}

void Group::BeginControl(const PeerPtr& peer) {
  peer->state = PeerState::kConnecting;
  peer->connector = MakeConnector(peer->rank, ConnectionKind::kControl, 0, 1, 0);
  peer->connector->Start([self = shared_from_this(), peer](Result<Connected> result) {
    peer->connector.reset();
    if (!result) {
      const Error& error = result.error();
      return self->EndPeer(peer, self->ErrorAbout(peer->rank, error.code(), error.message(), ""));
    }
    self->ControlStands(peer, std::move(result->fd), std::move(result->wire), &result->via);
  });
}

void Group::OnConnection(const IncomingPtr& connection) {
  const Hello& hello = connection->hello();
  Reply reply = JudgeRanks(hello, config_.rank, instances_);
  if (reply.verdict == Verdict::kAccepted && hello.index >= context_.options.max_lanes_per_peer) {
    reply = {Verdict::kRefused, ErrorCode::kResource,
             fmt::format("cannot open lane {}: at most {} lanes per peer are allowed", hello.index,
                         context_.options.max_lanes_per_peer)};
  }
  if (reply.verdict != Verdict::kAccepted) {
    return context_.acceptor.Reject(connection, reply);
  }
  const PeerPtr peer = PeerAt(hello.from);
  hello.kind == ConnectionKind::kControl ? OnControlConnection(peer, connection) : OnLaneConnection(peer, connection);
}

void Group::OnControlConnection(const PeerPtr& peer, const IncomingPtr& connection) {
  if (connection->HasLeft()) {  // checked first, because this rank drops its own connection when it accepts this one
    ++context_.options.counters->abandoned;
    return connection->HangUp();
  }
  switch (peer->state) {
    case PeerState::kIdle: break;
    case PeerState::kConnecting:
      if (config_.rank > peer->rank && peer->connector && peer->connector->said_hello()) {
        return context_.acceptor.Reject(
            connection, {Verdict::kTryAgain, ErrorCode::kNotReady,
                         "both ranks connected at the same time; the connection of the higher rank is kept"});
      }
      if (peer->connector) peer->connector->Cancel();
      peer->connector.reset();
      break;
    case PeerState::kOpen:
      return context_.acceptor.Reject(connection, {Verdict::kTryAgain, ErrorCode::kNotReady,
                                                   "there is already a control connection between the two ranks"});
    case PeerState::kEnded:
      return context_.acceptor.Reject(
          connection, {Verdict::kRefused, ErrorCode::kClosed, "the control connection has already ended"});
  }
  Fd fd = connection->Accept();
  if (fd) {
    ++context_.options.counters->established;
    return ControlStands(peer, std::move(fd), connection->TakeWire(), nullptr);
  }
  ++context_.options.counters->abandoned;
  // The client has closed the connection. If this rank was connecting as well, it connects again.
  if (peer->state == PeerState::kConnecting) BeginControl(peer);
}

void Group::ControlStands(const PeerPtr& peer, Fd fd, Wire wire, const Attempt* way) {
  const SocketAddress remote = PeerSocketAddress(fd.get());
  const bool same_host = SameHostAs(peer->rank);
  std::string reason = way != nullptr ? way->reason : same_host ? "same host" : "that rank connected to this one";
  const NetworkChoice choice =
      DescribeChoice(OrderAttempts(context_.self, context_.local, AddressOf(peer->rank)), remote.ip);
  if (!choice.text.empty()) reason += ", " + choice.text;
  std::string local_interface = InterfaceOf(fd.get());
  if (local_interface.empty() && way != nullptr) local_interface = way->interface;
  peer->address = remote.ToString();
  SetNoDelay(fd.get());
  SetSilenceLimit(fd.get(), context_.options.silence_timeout);
  const std::string congestion =
      SetCongestionControl(fd.get(), CongestionControlFor(peer->rank, /*we_called=*/way != nullptr));
  const std::string path =
      fmt::format("{}{} ({}; {}{}{})", peer->address, local_interface.empty() ? "" : " via " + local_interface, reason,
                  congestion, SplitsLanesTo(peer->rank) ? "; two sockets per lane" : "", wire.Describe());
  // The kernel moves bytes within the host, so no interface is used.
  LinkEnd link = same_host ? LinkEnd{} : LinkOf(local_interface);
  link.address = LocalSocketAddress(fd.get()).ip.ToString();
  {
    const std::lock_guard lock(view_mutex_);
    paths_[peer->rank] = path;
    links_[peer->rank] = std::move(link);
  }
  Log(context_.options.logger, LogLevel::kDebug, "tcp: {} reaches {} at {}",
      NameOfRank(config_.frame.get(), config_.rank), NameOfRank(config_.frame.get(), peer->rank), path);

  const bool was_asked_for = !context_.options.addresses.empty() || !context_.options.interface.empty();
  if (choice.speeds_unknown && !was_asked_for && !std::exchange(context_.warned_of_networks, true)) {
    Log(context_.options.logger, LogLevel::kWarning,
        "tcp: {} was reached at {}. Another network may be faster; choose it with --interface or --address",
        NameOf(peer->rank), path);
  }

  asio::error_code error;
  peer->socket.assign(fd.get(), error);
  if (error) {
    return EndPeer(
        peer, ErrorAbout(peer->rank, ErrorCode::kResource,
                         fmt::format("the control connection cannot be watched: {}", error.message()), peer->address));
  }
  fd.Release();
  peer->state = PeerState::kOpen;
  peer->channel->Begin(peer->socket.native_handle(), std::move(wire));
  for (const auto& [index, lane] : peer->lanes) {
    if (!lane->over) BeginLane(peer, index);
  }
  ReadControl(peer);
}

void Group::ReadControl(const PeerPtr& peer) {
  // Bytes that TLS has already read do not make the socket readable, so they are handled now.
  if (peer->channel->HasReceived()) {
    return asio::post(context_.io, [self = shared_from_this(), peer] { self->OnControlReadable(peer); });
  }
  peer->socket.async_wait(asio::posix::stream_descriptor::wait_read,
                          [self = shared_from_this(), peer](const asio::error_code& failed) {
                            if (!failed) self->OnControlReadable(peer);
                          });
}

void Group::OnControlReadable(const PeerPtr& peer) {
  if (closed_ || peer->state != PeerState::kOpen) return;
  for (int i = 0; i < kReadsPerTurn; ++i) {
    std::array<std::byte, 16384> bytes;
    std::string tls_failure;
    const ssize_t got = peer->channel->Receive(bytes, tls_failure);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (!tls_failure.empty()) {
      return EndPeer(peer,
                     ErrorAbout(peer->rank, ErrorCode::kCorrupt,
                                fmt::format("the control connection to {} failed: {}", NameOf(peer->rank), tls_failure),
                                peer->address));
    }
    if (got <= 0) {
      if (peer->goodbye || shut_down_ || !left_behind().empty()) return EndPeer(peer, std::nullopt);
      const std::string how = got == 0 ? "its control connection closed without a goodbye" : SystemMessage(errno);
      return EndPeer(peer, ErrorAbout(peer->rank, ErrorCode::kPeerLost,
                                      fmt::format("{} died: {}", NameOf(peer->rank), how), peer->address));
    }
    std::vector<ControlFrame> frames;
    const Status fed = peer->reader.Feed(Bytes(bytes).first(static_cast<std::size_t>(got)), frames);
    if (!OnFrames(peer, frames)) return;
    if (!fed) return EndPeer(peer, ErrorAbout(peer->rank, fed.error().code(), fed.error().message(), peer->address));
  }
  ReadControl(peer);
}

bool Group::OnFrames(const PeerPtr& peer, std::vector<ControlFrame>& frames) {
  for (ControlFrame& frame : frames) {
    if (!frame.lane_request) {
      if (frame.message.kind == ControlKind::kGoodbye) peer->goodbye = true;
      config_.observer->OnControl(peer->rank, std::move(frame.message));
      config_.mailbox->Wake();
      continue;
    }
    if (config_.rank < peer->rank || *frame.lane_request >= context_.options.max_lanes_per_peer) {
      EndPeer(
          peer,
          ErrorAbout(
              peer->rank, ErrorCode::kProtocol,
              fmt::format(
                  "{} asked for lane {}, which is not allowed: only the lower of two ranks may ask, for lanes below {}",
                  NameOf(peer->rank), *frame.lane_request, context_.options.max_lanes_per_peer),
              peer->address));
      return false;
    }
    OpenLane(peer->rank, *frame.lane_request);
  }
  return true;
}

void Group::WatchFlush(Rank rank) {
  const auto found = peers_.find(rank);
  if (closed_ || found == peers_.end()) return;
  const PeerPtr peer = found->second;
  if (peer->state != PeerState::kOpen || peer->flush_watched) return;
  peer->flush_watched = true;
  peer->socket.async_wait(asio::posix::stream_descriptor::wait_write,
                          [self = shared_from_this(), peer](const asio::error_code& failed) {
                            peer->flush_watched = false;
                            if (failed || self->closed_) return;
                            if (!peer->channel->Flush()) self->WatchFlush(peer->rank);
                          });
}

void Group::EndPeer(const PeerPtr& peer, std::optional<Error> lost) {
  if (closed_ || peer->state == PeerState::kEnded) return;
  const bool was_open = peer->state == PeerState::kOpen;
  peer->state = PeerState::kEnded;
  // A peer that broke the protocol, or whose bytes arrived damaged, is alive. If its connection just ended, that peer
  // would report the death of this rank. So the observer is called first, while it can still send the reason to the
  // peer. Unread bytes are drained, because they would turn the close into a reset, which might destroy the reason.
  const bool lives = lost && (lost->code() == ErrorCode::kProtocol || lost->code() == ErrorCode::kCorrupt);
  if (lives) {
    config_.observer->OnPeerLost(peer->rank, *lost);
    Drain(peer->socket.native_handle());
  }
  peer->channel->End();
  if (peer->connector) peer->connector->Cancel();
  peer->connector.reset();
  asio::error_code ignored;
  peer->socket.close(ignored);
  peer->lane_error =
      lost ? *lost
           : ErrorAbout(peer->rank, ErrorCode::kClosed, fmt::format("{} has left", NameOf(peer->rank)), peer->address);
  for (const auto& [index, lane] : peer->lanes) FailLane(peer, index, *peer->lane_error);
  if (lost && !lives) {
    const bool ended_before = !was_open && lost->code() == ErrorCode::kPeerLost;
    ended_before ? config_.observer->OnPeerEndedBefore(peer->rank, std::move(*lost))
                 : config_.observer->OnPeerLost(peer->rank, std::move(*lost));
  }
  config_.mailbox->Wake();
}

// ---- lanes ----

std::shared_ptr<Group::LaneInProgress> Group::LaneAt(const PeerPtr& peer, std::uint32_t index) {
  if (const auto found = peer->lanes.find(index); found != peer->lanes.end()) return found->second;
  auto lane = std::make_shared<LaneInProgress>(context_.io);
  peer->lanes.emplace(index, lane);
  lane->deadline.expires_after(config_.connect_timeout);
  lane->deadline.async_wait([self = shared_from_this(), peer, index, lane](const asio::error_code& failed) {
    // If this rank is connecting, the connector's own deadline ends the attempt, with a more precise error.
    if (failed || self->closed_ || !lane->connectors.empty() || peer->state != PeerState::kOpen) return;
    self->FailLane(
        peer, index,
        self->ErrorAbout(peer->rank, ErrorCode::kTimeout,
                         fmt::format("lane {} with {} was not connected in time", index, self->NameOf(peer->rank)),
                         peer->address));
  });
  return lane;
}

void Group::OpenLane(Rank rank, std::uint32_t index) {
  if (closed_) return;
  const PeerPtr peer = PeerAt(rank);
  const std::shared_ptr<LaneInProgress> lane = LaneAt(peer, index);
  if (peer->state == PeerState::kEnded) return FailLane(peer, index, *peer->lane_error);
  if (peer->state == PeerState::kIdle) BeginControl(peer);
  if (peer->state == PeerState::kOpen && !lane->over) BeginLane(peer, index);
}

void Group::BeginLane(const PeerPtr& peer, std::uint32_t index) {
  const std::shared_ptr<LaneInProgress> lane = LaneAt(peer, index);
  if (std::exchange(lane->begun, true)) return;
  if (config_.rank < peer->rank) {
    peer->channel->Send(EncodeLaneRequest(index));
    return;
  }
  const std::uint8_t streams = SplitsLanesTo(peer->rank) ? 2 : 1;
  for (std::uint8_t stream = 0; stream < streams; ++stream) {
    const auto connector = MakeConnector(peer->rank, ConnectionKind::kLane, index, streams, stream);
    lane->connectors.push_back(connector);
    connector->Start([self = shared_from_this(), peer, index, streams, stream](Result<Connected> result) {
      if (!result) {
        const Error& error = result.error();
        return self->FailLane(peer, index, self->ErrorAbout(peer->rank, error.code(), error.message(), peer->address));
      }
      self->HandOver(peer, index, streams, stream, /*we_called=*/true, std::move(result->fd), std::move(result->wire));
    });
  }
}

void Group::OnLaneConnection(const PeerPtr& peer, const IncomingPtr& connection) {
  const Hello& hello = connection->hello();
  const auto refuse = [&](ErrorCode code, std::string text) {
    context_.acceptor.Reject(connection, {Verdict::kRefused, code, std::move(text)});
  };
  if (peer->state == PeerState::kEnded) return refuse(ErrorCode::kClosed, "the control connection has already ended");
  if (context_.options.tls && hello.streams != 1) {
    return refuse(ErrorCode::kProtocol, "the lane has two sockets, but with TLS it must have one");
  }
  if (hello.from < config_.rank) return refuse(ErrorCode::kProtocol, "only the higher of two ranks may connect a lane");
  const std::shared_ptr<LaneInProgress> lane = LaneAt(peer, hello.index);
  if (lane->over || (lane->streams_seen & (1u << hello.stream)) != 0) {
    return refuse(ErrorCode::kProtocol, fmt::format("lane {} is already connected", hello.index));
  }
  Fd fd = connection->Accept();
  if (!fd) {
    ++context_.options.counters->abandoned;  // the peer will try again
    return;
  }
  ++context_.options.counters->established;
  HandOver(peer, hello.index, hello.streams, hello.stream, /*we_called=*/false, std::move(fd), connection->TakeWire());
}

void Group::HandOver(const PeerPtr& peer, std::uint32_t index, std::uint8_t streams, std::uint8_t stream,
                     bool we_called, Fd fd, Wire wire) {
  const std::shared_ptr<LaneInProgress> lane = LaneAt(peer, index);
  if (closed_ || lane->over) return;
  SetNoDelay(fd.get());
  if (!we_called) {  // otherwise the connector has set these options before connecting
    SetCongestionControl(fd.get(), CongestionControlFor(peer->rank, we_called));
    SetBuffers(fd.get(), context_.options.socket_buffer_bytes);
  }
  if (const std::uint32_t rail = RailOfLane(index); rail > 0) {
    const std::string interface = InterfaceOf(fd.get());
    const std::lock_guard lock(view_mutex_);
    rails_[peer->rank][rail] =
        fmt::format("{}{}", PeerSocketAddress(fd.get()).ToString(), interface.empty() ? "" : " via " + interface);
  }
  lane->streams_seen = static_cast<std::uint8_t>(lane->streams_seen | (1u << stream));
  if (lane->streams_seen == (1u << streams) - 1) {
    lane->over = true;
    lane->deadline.cancel();
    lane->connectors.clear();
  }
  Delivery delivery;
  delivery.peer = peer->rank;
  delivery.index = index;
  delivery.sends = CarriesOurs(streams, stream, we_called);
  delivery.receives = CarriesOurs(streams, stream, !we_called);
  delivery.fd = std::move(fd);
  delivery.tls = wire.ReleaseTls();
  config_.mailbox->Deliver(std::move(delivery));
}

std::string Group::InterfaceOf(int fd) const {
  const IpAddress ip = LocalSocketAddress(fd).ip;
  std::string interface;
  for (const LocalAddress& own : context_.local)
    if (own.ip == ip) interface = own.interface;
  return interface;
}

void Group::FailLane(const PeerPtr& peer, std::uint32_t index, const Error& error) {
  const std::shared_ptr<LaneInProgress> lane = LaneAt(peer, index);
  if (std::exchange(lane->over, true)) return;
  lane->deadline.cancel();
  for (const auto& connector : lane->connectors) connector->Cancel();
  lane->connectors.clear();
  Delivery delivery;
  delivery.peer = peer->rank;
  delivery.index = index;
  delivery.failure = error;
  config_.mailbox->Deliver(std::move(delivery));
}

// ---- the end ----

void Group::ShutDown() {
  if (closed_ || std::exchange(shut_down_, true)) return;
  for (const auto& [rank, peer] : peers_) peer->channel->FinishWriting();
}

void Group::Close() {
  if (std::exchange(closed_, true)) return;
  for (const auto& [rank, peer] : peers_) {
    peer->channel->End();
    if (peer->connector) peer->connector->Cancel();
    peer->connector.reset();
    for (const auto& [index, lane] : peer->lanes) {
      lane->deadline.cancel();
      for (const auto& connector : lane->connectors) connector->Cancel();
      lane->connectors.clear();
    }
    if (peer->socket.is_open() && shut_down_) Drain(peer->socket.native_handle());
    asio::error_code ignored;
    peer->socket.close(ignored);
  }
  peers_.clear();
}

}  // namespace rondo::tcp
