// Control connections of the simulated network. This file makes control connections and lanes, carries control
// messages, and ends control connections.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "transport/sim/core.h"

namespace rondo {

namespace {

// The size is the same as over TCP (docs/WIRE.md), so that a fault can name a byte of the stream.
constexpr std::size_t kControlHeaderBytes = 8;

std::optional<tcp::Reply> Decode(Bytes bytes) {
  tcp::MessageReader reader(tcp::MessageReader::Kind::kReply);
  while (!reader.complete() && !bytes.empty()) {
    const Bytes piece = bytes.first(std::min(bytes.size(), reader.wanted()));
    if (!reader.Feed(piece)) return std::nullopt;
    bytes = bytes.subspan(piece.size());
  }
  const auto reply = reader.complete() ? reader.reply() : Fail(ErrorCode::kProtocol, "a truncated reply");
  return reply ? std::optional(*reply) : std::nullopt;
}

}  // namespace

TimePoint SimCore::DrawConnectTime(Rank from, Rank to) {
  const SimLink& path = link(from, to);
  return clock()->Now() + Draw(path.min_connect, path.max_connect);
}

// ---- making ----

void SimCore::BeginControl(const Seat& seat, const EndpointConfig& config, const LaneName& name,
                           const std::shared_ptr<SimStation>& peer) {
  const auto& self = seat.station;
  const auto [found, fresh] = self->peers.try_emplace(name.peer);
  if (!fresh) return;
  found->second.station = peer;
  const Rank from = seat.place.network_rank;
  const Rank to = name.place.network_rank;
  if (!options_.handshakes) {
    // The connection is established at this rank at once, and at the peer when the connect event arrives.
    found->second.last_arrival = DrawConnectTime(from, to);
    Schedule(found->second.last_arrival, {Kind::kConnect, from, to, name.index},
             [this, self, peer, here = config.rank, there = name.peer] {
               if (self->closed || killed_[self->network_rank]) {
                 if (!peer->closed) peer->peers.try_emplace(here).first->second.station = self;
               } else if (killed_[peer->network_rank] || (peer->closed && !peer->left_behind)) {
                 QueueLoss(*self, there, "it ended before a connection could be made");
               } else {
                 const auto [link, is_new] = peer->peers.try_emplace(here);
                 link->second.station = self;
                 peer->Touch();
                 if (is_new) SendLeftBehind(peer, here);
               }
             });
    return;
  }
  found->second.stands = false;
  const auto here = [this, self, there = name.peer]() -> SimStation::Peer* {
    const auto at = self->peers.find(there);
    const bool waits = !self->closed && !killed_[self->network_rank] && at != self->peers.end() && !at->second.stands &&
                       !at->second.lost;
    return waits ? &at->second : nullptr;
  };
  Schedule(Later(clock()->Now(), config.connect_timeout), {Kind::kTimer, from, from, name.index},
           [this, self, here, there = name.peer] {
             if (here() != nullptr)
               LoseControl(*self, there, ErrorCode::kUnreachable,
                           fmt::format("rank {} did not answer a connection request in time", there));
           });
  Dial({.from = from,
        .to = to,
        .hello = Encode(HelloTo(seat, config, name)),
        .given_up =
            [self, there = name.peer] {
              const auto at = self->peers.find(there);
              return self->closed || at == self->peers.end() || at->second.lost;
            },
        .accepted =
            [this, self, rank = config.rank, there = name.peer](SimStation& target, TimePoint reply_at) {
              if (const auto own = self->peers.find(there); own != self->peers.end()) own->second.accepted_there = true;
              SimStation::Peer& link = target.peers[rank];
              link.station = self;
              link.last_arrival = std::max(link.last_arrival, reply_at);  // so that messages arrive after the reply
              Stand(link);
              target.Touch();
            },
        .answered =
            [this, self, here, there = name.peer](const std::optional<tcp::Reply>& reply) {
              SimStation::Peer* const link = here();
              if (link == nullptr) return;
              if (!reply) return QueueLoss(*self, there, "it ended before a connection could be made");
              if (reply->verdict == tcp::Verdict::kAccepted) return Stand(*link);
              if (reply->verdict == tcp::Verdict::kRefused)
                LoseControl(*self, there, reply->code,
                            fmt::format("rank {} refused a connection: {}", there, reply->text));
            }});
}

void SimCore::BeginLane(const Seat& seat, const EndpointConfig& config, const LaneName& name,
                        const Attached& attached) {
  const auto& self = seat.station;
  const auto& cable = attached.cable;
  const int side = attached.side;
  const Rank from = seat.place.network_rank;
  const Rank to = name.place.network_rank;
  if (!options_.handshakes) {
    Schedule(DrawConnectTime(from, to), {Kind::kOpen, from, to, name.index}, [cable, side, self] {
      cable->connected[side] = true;
      self->Touch();
    });
    return;
  }
  if (config.rank < name.peer) return;  // the higher rank connects; its hello may have arrived already
  tcp::Hello hello = HelloTo(seat, config, name);
  hello.kind = tcp::ConnectionKind::kLane;
  hello.index = name.index;
  auto call = [this, self, cable, side, from, to, bytes = Encode(hello)] {
    Dial({.from = from,
          .to = to,
          .hello = bytes,
          .given_up = [cable, side] { return cable->broken || cable->pipes[side].end_sent != SimEnd::kNone; },
          .accepted =
              [cable, side](SimStation& target, TimePoint) {
                cable->connected[1 - side] = true;
                target.Touch();
              },
          .answered =
              [this, self, cable, side](const std::optional<tcp::Reply>& reply) {
                if (self->closed) return;
                if (reply && reply->verdict == tcp::Verdict::kAccepted) {
                  cable->connected[side] = true;
                  self->Touch();
                } else if (!cable->broken) {
                  Break(*cable);
                }
              }});
  };
  SimStation::Peer& link = self->peers.at(name.peer);
  if (link.stands) return call();
  link.once_it_stands.push_back(std::move(call));
}

tcp::Hello SimCore::HelloTo(const Seat& seat, const EndpointConfig& config, const LaneName& name) const {
  const SimProcess& self = processes_[seat.place.process];
  tcp::Hello hello;
  hello.rail = config.rail;
  hello.communicator = config.communicator;
  hello.generation = self.generation;
  hello.from = config.rank;
  hello.to = name.peer;
  hello.job = self.job;
  hello.from_instance = self.instance;
  hello.to_instance = processes_[name.place.process].instance;
  return hello;
}

void SimCore::Stand(SimStation::Peer& peer) {
  if (std::exchange(peer.stands, true)) return;
  for (const auto& waiting : std::exchange(peer.once_it_stands, {})) waiting();
}

// ---- hellos and replies ----

void SimCore::Dial(ConnectAttempt attempt) {
  const Rank from = attempt.from;
  const Rank to = attempt.to;
  // A foreign client uses no link, and no partition stops it.
  const Rank link_from = from == kNoRank ? to : from;
  const Item item{from == kNoRank ? Kind::kTimer : Kind::kConnect, link_from, to, attempt.hello.size()};
  Schedule(DrawConnectTime(link_from, to), item, [this, call = std::make_shared<ConnectAttempt>(std::move(attempt))] {
    if (call->from != kNoRank && killed_[call->from]) return;
    WhenItRuns(call->to, [this, call] { StartHandshake(call); });
  });
}

bool SimCore::HasLeft(const ConnectAttempt& attempt) const {
  if (attempt.from != kNoRank && killed_[attempt.from]) return true;
  return attempt.given_up && attempt.given_up();
}

void SimCore::StartHandshake(const std::shared_ptr<ConnectAttempt>& attempt) {
  if (killed_[attempt->to]) return attempt->answered(std::nullopt);
  if (HasLeft(*attempt)) return;
  tcp::ServerHandshake side(nullptr);  // no simulated process has a token
  const auto drop = [&] {
    ++counters.unknown;
    attempt->answered(std::nullopt);
  };
  for (Bytes left = attempt->hello;;) {
    const Bytes piece = left.first(std::min(left.size(), side.wanted()));
    if (piece.empty()) return drop();
    const auto next = side.Feed(piece);
    if (!next) {
      if (next.error().code() == ErrorCode::kProtocol) return drop();
      ++counters.refusals;
      Answer(attempt, {tcp::Verdict::kRefused, next.error().code(), next.error().message()});
      return;
    }
    if (*next == tcp::ServerHandshake::Next::kJudge) break;
    left = left.subspan(piece.size());
  }
  const tcp::Hello& hello = side.hello();
  ++counters.hellos;
  const std::uint32_t process = listening_[attempt->to];
  const SimProcess& self = processes_[process];
  const tcp::Reply reply =
      tcp::JudgeHello(hello, {.job = self.job, .generation = self.generation, .instance = self.instance});
  if (reply.verdict != tcp::Verdict::kAccepted) {
    ++counters.refusals;
    Answer(attempt, reply);
    return;
  }
  const Place place{attempt->to, process};
  const std::uint32_t opened = incarnations_[{place, hello.communicator, hello.rail, 0}];
  const bool is_open = opened > 0 && StationOf({place, hello.communicator, hello.rail, opened - 1}, hello.to)->open;
  const bool has_left =
      opened > 0 && StationOf({place, hello.communicator, hello.rail, opened - 1}, hello.to)->left_behind.has_value();
  const std::uint32_t incarnation = is_open || has_left ? opened - 1 : opened;
  const auto& station = StationOf({place, hello.communicator, hello.rail, incarnation}, hello.to);
  if (is_open || has_left) return Judge(attempt, station, hello);
  station->held.push_back([this, attempt, station, hello] { Judge(attempt, station, hello); });
}

void SimCore::Judge(const std::shared_ptr<ConnectAttempt>& attempt, const std::shared_ptr<SimStation>& target,
                    const tcp::Hello& hello) {
  SimStation& station = *target;
  if (killed_[attempt->to]) return attempt->answered(std::nullopt);
  if (HasLeft(*attempt)) return;
  tcp::Reply reply = tcp::JudgeRanks(hello, station.rank, station.instances);
  if (reply.verdict == tcp::Verdict::kAccepted && hello.kind == tcp::ConnectionKind::kControl) {
    const auto peer = station.peers.find(hello.from);
    if (peer != station.peers.end() && peer->second.lost)
      reply = {tcp::Verdict::kRefused, ErrorCode::kClosed, "the control connection has already ended"};
    else if (peer != station.peers.end() && peer->second.stands)
      reply = {tcp::Verdict::kTryAgain, ErrorCode::kNotReady,
               "there is already a control connection between the two ranks"};
  }
  counters.refusals += reply.verdict == tcp::Verdict::kRefused;
  const TimePoint back = Answer(attempt, reply);
  if (reply.verdict != tcp::Verdict::kAccepted || !attempt->accepted) return;
  attempt->accepted(station, back);
  if (hello.kind == tcp::ConnectionKind::kControl) SendLeftBehind(target, hello.from);
}

TimePoint SimCore::Answer(const std::shared_ptr<ConnectAttempt>& attempt, const tcp::Reply& reply) {
  std::vector<std::byte> bytes = Encode(reply);
  const std::size_t size = bytes.size();
  const Rank to = attempt->from == kNoRank ? attempt->to : attempt->from;
  const TimePoint at = DrawArrival(attempt->to, to, size);
  Schedule(at, {Kind::kReply, attempt->to, to, size}, [this, attempt, bytes = std::move(bytes)] {
    if (attempt->from == kNoRank) return attempt->answered(Decode(bytes));
    WhenItRuns(attempt->from, [this, attempt, bytes] {
      if (!killed_[attempt->from]) attempt->answered(Decode(bytes));
    });
  });
  return at;
}

void SimCore::Call(Rank to, std::vector<std::byte> bytes, TimePoint at, std::function<void(Bytes)> answer) {
  RONDO_CHECK(options_.handshakes, "Call without handshakes");
  const std::size_t size = bytes.size();
  ScheduleFault(at, {Kind::kFault, kNoRank, to, size},
                [this, to, bytes = std::move(bytes), answer = std::move(answer)] {
                  Tell(fmt::format("a foreign client connects to rank {} and sends {} bytes", to, bytes.size()));
                  Dial({.from = kNoRank,
                        .to = to,
                        .hello = bytes,
                        .given_up = nullptr,
                        .accepted = nullptr,
                        .answered = [answer](const auto& reply) {
                          if (answer && reply) answer(Encode(*reply));
                        }});
                });
}

void SimCore::WhenItRuns(Rank rank, std::function<void()> action) {
  if (!paused(rank) || killed_[rank]) return action();
  wait_to_run_[static_cast<std::size_t>(rank)].push_back(std::move(action));
}

// ---- carrying and ending ----

bool SimCore::SendControl(const std::shared_ptr<SimStation>& station, Rank rank, const ControlMessage& message) {
  const auto found = station->peers.find(rank);
  if (found == station->peers.end() || found->second.lost || station->shut_down || killed_[station->network_rank])
    return false;
  SimStation::Peer& peer = found->second;
  if (message.kind == ControlKind::kGoodbye) peer.goodbye_sent = true;
  const auto send = [this, station, rank, message] { Carry(station, rank, message); };
  if (peer.stands) {
    send();
  } else {
    peer.once_it_stands.push_back(send);
  }
  return true;
}

void SimCore::Carry(const std::shared_ptr<SimStation>& station, Rank rank, const ControlMessage& message) {
  if (killed_[station->network_rank]) return;
  const auto here = station->peers.find(rank);
  if (here == station->peers.end()) return;
  SimStation::Peer& link = here->second;
  const Rank from = station->network_rank;
  const Rank to = link.station->network_rank;
  link.last_arrival = std::max(DrawArrival(from, to, message.body.size()), link.last_arrival + Duration(1));
  Schedule(link.last_arrival, {Kind::kControl, from, to, message.body.size()},
           [this, target = link.station, station, message] {
             if (target->closed || killed_[target->network_rank]) return;
             const auto there = target->peers.find(station->rank);
             if (there != target->peers.end()) {
               if (there->second.lost) return;
               const std::uint64_t at = there->second.arrived;
               there->second.arrived += kControlHeaderBytes + message.body.size();
               if (!stream_faults_.empty() && MeetFaults(*station, *target, at, there->second.arrived - at)) return;
             }
             SimStation::Event& event = target->events.emplace_back();
             event.from = station->rank;
             event.message = message;
             target->news = true;
             target->Touch();
             TellObserver(*target);
           });
}

void SimCore::SendLeftBehind(const std::shared_ptr<SimStation>& station, Rank rank) {
  if (!station->left_behind) return;
  Carry(station, rank, *station->left_behind);
  SimStation::Peer& peer = station->peers.at(rank);
  peer.goodbye_sent = station->left_behind->kind == ControlKind::kGoodbye;
  if (!peer.goodbye_sent && station->closed) SendLoss(station, peer, "its endpoint closed without a goodbye");
}

void SimCore::TellObserver(SimStation& station) {
  if (!options_.control_thread || !station.open || paused(station.network_rank) || killed_[station.network_rank])
    return;
  while (station.observer != nullptr && !station.events.empty()) {
    SimStation::Event event = std::move(station.events.front());
    station.events.pop_front();
    if (event.loss)
      station.observer->OnPeerLost(event.from, std::move(*event.loss));
    else
      station.observer->OnControl(event.from, std::move(event.message));
  }
}

void SimCore::SendLoss(const std::shared_ptr<SimStation>& dead, SimStation::Peer& peer, const std::string& how) {
  const Rank from = dead->network_rank;
  const Rank to = peer.station->network_rank;
  const TimePoint at = std::max(DrawArrival(from, to, 0) + Draw(options_.min_loss_delay, options_.max_loss_delay),
                                peer.last_arrival + Duration(1));
  Schedule(at, {Kind::kLoss, from, to, 0},
           [this, station = peer.station, rank = dead->rank, how] { QueueLoss(*station, rank, how); });
}

void SimCore::QueueLoss(SimStation& station, Rank rank, const std::string& how) {
  LoseControl(station, rank, ErrorCode::kPeerLost, fmt::format("rank {} died: {}", rank, how));
}

void SimCore::LoseControl(SimStation& station, Rank rank, ErrorCode code, const std::string& message) {
  const auto found = station.peers.find(rank);
  if (station.closed || killed_[station.network_rank] || found == station.peers.end() || found->second.lost) return;
  if (options_.sabotage.ignores_losses) return;
  found->second.lost = true;
  found->second.once_it_stands.clear();
  SimStation::Event& event = station.events.emplace_back();
  event.from = rank;
  event.loss = Error(code, message).With([&](ErrorDetails& details) {
    details.rank = station.rank;
    details.culprit = rank;
  });
  station.news = true;
  station.Touch();
  ++counters.losses;
  TellObserver(station);
}

}  // namespace rondo
