#include "transport/sim/core.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/check.h"

namespace rondo {

namespace {

constexpr std::string_view kScheme = "sim://";

// One step of a running hash.
void Mix(std::uint64_t& hash, std::uint64_t value) { hash = Random(hash ^ value).Next(); }

}  // namespace

SimCore::SimCore(const SimOptions& options)
    : options_(options),
      random_(options.seed),
      links_(options.world_size * options.world_size, options.link),
      link_free_(links_.size()),
      killed_(options.world_size) {
  RONDO_CHECK(options.world_size >= 1, "world size {}", options.world_size);
  RONDO_CHECK(options.buffer_bytes >= kLineBytes && options.buffer_bytes % kLineBytes == 0,
              "buffer_bytes {} is no multiple of {} above 0", options.buffer_bytes, kLineBytes);
  if (options_.clock == nullptr) options_.clock = std::make_shared<ManualClock>();
}

SimCore::~SimCore() {
  for (auto& [name, station] : stations_) station->peers.clear();  // they form cycles
}

// ---- the queue ----

bool SimCore::Later(const Event& a, const Event& b) {
  return std::tie(a.at, a.tie, a.number) > std::tie(b.at, b.tie, b.number);
}

void SimCore::Schedule(TimePoint at, const Item& item, std::function<void()> action) {
  queue_.push_back({std::max(at, clock()->Now()), random_.Next(), scheduled_++, item, std::move(action)});
  std::push_heap(queue_.begin(), queue_.end(), Later);
}

std::optional<TimePoint> SimCore::NextEventTime() const {
  if (queue_.empty()) return std::nullopt;
  return queue_.front().at;
}

bool SimCore::Step() {
  if (queue_.empty()) return false;
  std::pop_heap(queue_.begin(), queue_.end(), Later);
  const Event event = std::move(queue_.back());
  queue_.pop_back();
  clock()->AdvanceTo(std::max(clock()->Now(), event.at));
  ++counters.events;
  for (std::uint64_t part :
       {static_cast<std::uint64_t>(event.at.time_since_epoch().count()), static_cast<std::uint64_t>(event.item.kind),
        static_cast<std::uint64_t>(event.item.from), static_cast<std::uint64_t>(event.item.to), event.item.value})
    Mix(trace_hash_, part);
  event.action();
  return true;
}

// ---- stations ----

Result<Rank> SimCore::ParseAddress(const std::string& address) const {
  Rank rank = kNoRank;
  const char* end = address.data() + address.size();
  if (address.starts_with(kScheme)) {
    const auto [stop, error] = std::from_chars(address.data() + kScheme.size(), end, rank);
    if (error != std::errc() || stop != end) rank = kNoRank;
  }
  if (rank < 0 || rank >= options_.world_size)
    return Fail(ErrorCode::kUnreachable, "address '{}' is not of this simulated network of {} ranks", address,
                options_.world_size);
  return rank;
}

const std::shared_ptr<SimStation>& SimCore::StationOf(const StationName& name, Rank rank) {
  auto& station = stations_[name];
  if (station == nullptr) {
    station = std::make_shared<SimStation>();
    station->network_rank = name.network_rank;
    station->rank = rank;
  }
  return station;
}

Result<SimCore::Seat> SimCore::OpenStation(Rank network_rank, const EndpointConfig& config) {
  std::uint32_t& opened = incarnations_[{network_rank, config.communicator, config.rail, 0}];
  if (opened > 0 && StationOf({network_rank, config.communicator, config.rail, opened - 1}, config.rank)->open)
    return Fail(ErrorCode::kInvalidArgument, "rank {} has an open endpoint of communicator {} rail {} already",
                config.rank, config.communicator, config.rail);
  const auto& station = StationOf({network_rank, config.communicator, config.rail, opened}, config.rank);
  station->open = true;
  station->Touch();
  return Seat{station, opened++};
}

void SimCore::CloseStation(const std::shared_ptr<SimStation>& station) {
  station->open = false;
  station->closed = true;
  station->events.clear();
  cables_.erase(station.get());
  auto peers = std::exchange(station->peers, {});
  if (killed_[station->network_rank]) return;  // its peers have been told
  for (auto& [rank, peer] : peers)
    if (!peer.goodbye_sent) SendLoss(station, peer, "its endpoint closed without a goodbye");
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
  const auto found = station.peers.find(rank);
  if (station.closed || killed_[station.network_rank] || found == station.peers.end() || found->second.lost) return;
  found->second.lost = true;
  SimStation::Event& event = station.events.emplace_back();
  event.from = rank;
  event.loss = Error(ErrorCode::kPeerLost, fmt::format("rank {} died: {}", rank, how)).With([&](ErrorDetails& details) {
    details.rank = station.rank;
    details.culprit = rank;
  });
  station.news = true;
  station.Touch();
  ++counters.losses;
}

bool SimCore::SendControl(SimStation& station, Rank rank, const ControlMessage& message) {
  const auto found = station.peers.find(rank);
  if (found == station.peers.end() || found->second.lost || station.shut_down || killed_[station.network_rank])
    return false;
  SimStation::Peer& peer = found->second;
  if (message.kind == ControlKind::kGoodbye) peer.goodbye_sent = true;
  const Rank from = station.network_rank;
  const Rank to = peer.station->network_rank;
  peer.last_arrival = std::max(DrawArrival(from, to, message.body.size()), peer.last_arrival + Duration(1));
  Schedule(peer.last_arrival, {Kind::kControl, from, to, message.body.size()},
           [this, target = peer.station, sender = station.rank, message] {
             if (target->closed || killed_[target->network_rank]) return;
             SimStation::Event& event = target->events.emplace_back();
             event.from = sender;
             event.message = message;
             target->news = true;
             target->Touch();
           });
  return true;
}

void SimCore::Kill(Rank rank) {
  if (killed_[rank]) return;
  killed_[rank] = true;
  ++counters.kills;
  for (auto& [name, station] : stations_) {
    if (name.network_rank != rank || station->closed) continue;
    if (const auto cables = cables_.find(station.get()); cables != cables_.end())
      for (auto& [weak, side] : cables->second)
        if (const auto cable = weak.lock()) End(cable, side, SimEnd::kGone);
    for (auto& [peer_rank, peer] : station->peers)
      if (!peer.goodbye_sent) SendLoss(station, peer, "it was killed");
  }
}

std::vector<Rank> SimCore::RanksToPoll() const {
  std::vector<Rank> ranks;
  for (const auto& [name, station] : stations_) {
    if (!station->open || !station->needs_poll || killed_[name.network_rank]) continue;
    if (ranks.empty() || ranks.back() != name.network_rank) ranks.push_back(name.network_rank);  // the map is in order
  }
  return ranks;
}

// ---- lanes ----

SimCore::Attached SimCore::Attach(const Seat& seat, const EndpointConfig& config, const LaneName& name) {
  const auto& self = seat.station;
  const Rank low = std::min(self->network_rank, name.network_peer);
  const Rank high = std::max(self->network_rank, name.network_peer);
  const int side = self->network_rank == low ? 0 : 1;
  const CableName cable_name{low, high, config.communicator, config.rail, seat.incarnation, name.index};
  const auto& peer = StationOf({name.network_peer, config.communicator, config.rail, seat.incarnation}, name.peer);

  std::shared_ptr<SimCable> cable;
  bool fresh = false;  // else the other side has made it, and has said on it how it stands
  if (const auto found = half_open_.find(cable_name); found != half_open_.end()) {
    cable = found->second;
    half_open_.erase(found);
  } else {
    cable = std::make_shared<SimCable>();
    for (int s : {0, 1}) {
      cable->pipes[s].ring.resize(options_.buffer_bytes);
      cable->pipes[s].sender = s == side ? self : peer;
      cable->pipes[s].receiver = s == side ? peer : self;
    }
    half_open_.emplace(cable_name, cable);
    fresh = true;
  }
  cables_[self.get()].emplace_back(cable, side);
  if (killed_[self->network_rank]) return {cable, side};

  // The control connection stands here at once, there when the connect has arrived.
  if (self->peers.try_emplace(name.peer, SimStation::Peer{peer}).second) {
    const TimePoint at = DrawConnectTime(self->network_rank, name.network_peer);
    self->peers[name.peer].last_arrival = at;
    Schedule(at, {Kind::kConnect, self->network_rank, name.network_peer, name.index},
             [this, self, peer, here = config.rank, there = name.peer] {
               if (self->closed || killed_[self->network_rank]) {
                 if (!peer->closed) peer->peers.try_emplace(here, SimStation::Peer{self});
               } else if (peer->closed || killed_[peer->network_rank]) {
                 QueueLoss(*self, there, "it was gone before a connection could be made");
               } else {
                 peer->peers.try_emplace(here, SimStation::Peer{self});
                 peer->Touch();
               }
             });
  }
  if (fresh && (peer->closed || killed_[name.network_peer])) End(cable, 1 - side, SimEnd::kGone);
  return {cable, side};
}

TimePoint SimCore::DrawConnectTime(Rank from, Rank to) {
  const SimLink& path = link(from, to);
  return clock()->Now() + Draw(path.min_connect, path.max_connect);
}

void SimCore::Send(const std::shared_ptr<SimCable>& cable, int side) {
  SimPipe& pipe = cable->pipes[side];
  const Rank from = pipe.sender->network_rank;
  const Rank to = pipe.receiver->network_rank;
  while (pipe.sent < pipe.accepted) {
    const std::uint64_t waiting = pipe.accepted - pipe.sent;
    const std::size_t slice = link(from, to).max_slice_bytes;
    const std::uint64_t bytes = slice == 0 ? waiting : std::min(waiting, random_.Between(1, slice));
    if (bytes < waiting) ++counters.slices;
    pipe.sent += bytes;
    pipe.last_arrival = std::max(DrawArrival(from, to, bytes), pipe.last_arrival);
    Schedule(pipe.last_arrival, {Kind::kDeliver, from, to, bytes}, [this, cable, side, bytes] {
      SimPipe& arriving = cable->pipes[side];
      if (killed_[arriving.receiver->network_rank]) return;
      ++counters.deliveries;
      arriving.delivered += bytes;
      arriving.arrival_news = true;
      arriving.receiver->Touch();
    });
  }
}

void SimCore::Acknowledge(const std::shared_ptr<SimCable>& cable, int side) {
  SimPipe& pipe = cable->pipes[side];
  if (pipe.ack_under_way || killed_[pipe.receiver->network_rank]) return;
  pipe.ack_under_way = true;
  const Rank from = pipe.receiver->network_rank;
  const Rank to = pipe.sender->network_rank;
  Schedule(DrawArrival(from, to, 0), {Kind::kAck, from, to, 0}, [this, cable, side] {
    SimPipe& acked = cable->pipes[side];
    acked.ack_under_way = false;
    if (killed_[acked.sender->network_rank]) return;
    acked.acked = acked.consumed;
    acked.room_news = acked.room_news || acked.short_write;
    acked.release_news = acked.release_news || options_.late_release;
    acked.sender->Touch();
  });
}

void SimCore::End(const std::shared_ptr<SimCable>& cable, int side, SimEnd how) {
  SimPipe& pipe = cable->pipes[side];
  if (how <= pipe.end_sent) return;
  pipe.end_sent = how;
  const Rank from = pipe.sender->network_rank;
  const Rank to = pipe.receiver->network_rank;
  TimePoint at = DrawArrival(from, to, 0);
  if (how == SimEnd::kGone) at += Draw(options_.min_loss_delay, options_.max_loss_delay);
  pipe.last_arrival = std::max(at, pipe.last_arrival + Duration(1));
  Schedule(pipe.last_arrival, {Kind::kEnd, from, to, static_cast<std::uint64_t>(how)}, [this, cable, side, how] {
    SimPipe& ended = cable->pipes[side];
    if (killed_[ended.receiver->network_rank]) return;
    ended.end = std::max(ended.end, how);
    ended.arrival_news = true;
    ended.receiver->Touch();
  });
}

Duration SimCore::Draw(Duration low, Duration high) {
  return Duration(static_cast<Duration::rep>(
      random_.Between(static_cast<std::uint64_t>(low.count()), static_cast<std::uint64_t>(high.count()))));
}

TimePoint SimCore::DrawArrival(Rank from, Rank to, std::uint64_t bytes) {
  const SimLink& path = link(from, to);
  TimePoint& free = link_free_[from * options_.world_size + to];
  free = std::max(free, clock()->Now());
  if (path.clog_probability > 0 && random_.Chance(path.clog_probability)) {
    ++counters.clogs;
    free += Draw(path.min_clog, path.max_clog);
  }
  if (path.bytes_per_second > 0)
    free += Duration(
        static_cast<Duration::rep>(1e9 * static_cast<double>(bytes) / static_cast<double>(path.bytes_per_second)));
  return free + Draw(path.min_delay, path.max_delay);
}

}  // namespace rondo
