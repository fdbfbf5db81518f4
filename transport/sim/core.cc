#include "transport/sim/core.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/check.h"

namespace rondo {

namespace {

constexpr std::string_view kScheme = "sim://";

// Adds one value to a running hash.
void Mix(std::uint64_t& hash, std::uint64_t value) { hash = Random(hash ^ value).Next(); }

}  // namespace

SimCore::SimCore(const SimOptions& options)
    : options_(options),
      random_(options.seed),
      links_(options.world_size * options.world_size, options.link),
      link_free_(links_.size()),
      killed_(options.world_size),
      pauses_(options.world_size),
      wait_to_run_(options.world_size),
      blocks_(links_.size()),
      block_numbers_(links_.size()),
      held_back_(links_.size()),
      touched_(options.world_size),
      listening_(options.world_size) {
  RONDO_CHECK(options.world_size >= 1, "world size {}", options.world_size);
  RONDO_CHECK(options.buffer_bytes >= kLineBytes && options.buffer_bytes % kLineBytes == 0,
              "buffer_bytes {} is not a positive multiple of {}", options.buffer_bytes, kLineBytes);
  if (options_.clock == nullptr) options_.clock = std::make_shared<ManualClock>();
}

SimCore::~SimCore() {
  for (auto& [name, station] : stations_) {  // ends the reference cycles of stations and peers
    station->peers.clear();
    station->held.clear();
  }
}

// ---- the queue ----

bool SimCore::IsLater(const Event& a, const Event& b) {
  return std::tie(a.at, a.tie, a.number) > std::tie(b.at, b.tie, b.number);
}

void SimCore::Push(Event event) {
  queue_.push_back(std::move(event));
  std::push_heap(queue_.begin(), queue_.end(), IsLater);
}

SimCore::Event SimCore::Pop() {
  std::pop_heap(queue_.begin(), queue_.end(), IsLater);
  Event event = std::move(queue_.back());
  queue_.pop_back();
  return event;
}

void SimCore::Schedule(TimePoint at, const Item& item, std::function<void()> action) {
  Push({std::max(at, clock()->Now()), random_.Next(), scheduled_++, item, std::move(action)});
}

std::optional<TimePoint> SimCore::NextEventTime() const {
  if (queue_.empty()) return std::nullopt;
  return queue_.front().at;
}

void SimCore::Note(const Item& item) {
  for (std::uint64_t part :
       {static_cast<std::uint64_t>(clock()->Now().time_since_epoch().count()), static_cast<std::uint64_t>(item.kind),
        static_cast<std::uint64_t>(item.from), static_cast<std::uint64_t>(item.to), item.value})
    Mix(trace_hash_, part);
}

bool SimCore::Step() {
  if (queue_.empty()) return false;
  Event event = Pop();
  clock()->AdvanceTo(std::max(clock()->Now(), event.at));
  ++counters.events;
  if (IsNetworks(event.item.kind) && blocks_[LinkOf(event.item)] > 0) {
    ++counters.held_back;
    held_back_[LinkOf(event.item)].push_back(std::move(event));
    return true;
  }
  Note(event.item);
  event.action();
  while (!kills_at_event_.empty() && kills_at_event_.begin()->first <= counters.events) {
    const Rank rank = kills_at_event_.begin()->second;
    kills_at_event_.erase(kills_at_event_.begin());
    Note({Kind::kKill, rank, rank, 0});
    Kill(rank);
  }
  return true;
}

// ---- stations ----

SimCore::Place SimCore::StartProcess(Rank network_rank, SimProcess process) {
  processes_.push_back(std::move(process));
  listening_[network_rank] = static_cast<std::uint32_t>(processes_.size() - 1);
  return {network_rank, listening_[network_rank]};
}

std::string SimCore::AddressOf(Place place) const {
  if (place.process == 0) return fmt::format("{}{}", kScheme, place.network_rank);
  return fmt::format("{}{}/{}", kScheme, place.network_rank, place.process);
}

Result<SimCore::Place> SimCore::ParseAddress(const std::string& address) const {
  Place place;
  const char* const end = address.data() + address.size();
  bool good = address.starts_with(kScheme);
  if (good) {
    const auto [stop, error] = std::from_chars(address.data() + kScheme.size(), end, place.network_rank);
    good = error == std::errc();
    if (good && stop != end) {
      const auto [last, wrong] = std::from_chars(stop + 1, end, place.process);
      good = *stop == '/' && wrong == std::errc() && last == end;
    }
  }
  if (!good || place.network_rank < 0 || place.network_rank >= options_.world_size ||
      place.process >= processes_.size())
    return Fail(ErrorCode::kUnreachable, "address '{}' does not belong to this simulated network of {} ranks", address,
                options_.world_size);
  return place;
}

const std::shared_ptr<SimStation>& SimCore::StationOf(const StationName& name, Rank rank) {
  auto& station = stations_[name];
  if (station == nullptr) {
    station = std::make_shared<SimStation>();
    station->touched = &touched_;
    station->network_rank = name.place.network_rank;
    station->communicator = name.communicator;
    station->rank = rank;
  }
  return station;
}

Result<SimCore::Seat> SimCore::OpenStation(Place place, const EndpointConfig& config, const std::vector<Place>& group) {
  std::uint32_t& opened = incarnations_[{place, config.communicator, config.rail, 0}];
  if (opened > 0 && StationOf({place, config.communicator, config.rail, opened - 1}, config.rank)->open)
    return Fail(ErrorCode::kInvalidArgument, "rank {} already has an open endpoint for communicator {}, rail {}",
                config.rank, config.communicator, config.rail);
  const auto& station = StationOf({place, config.communicator, config.rail, opened}, config.rank);
  station->open = true;
  station->rank = config.rank;
  station->observer = config.observer;
  for (const Place& member : group) station->instances.push_back(processes_[member.process].instance);
  station->Touch();
  // A later event answers waiting clients and calls the observer, because the observer may not be ready before this
  // function has returned.
  if (options_.control_thread || !station->held.empty())
    Schedule(clock()->Now(), {Kind::kTimer, place.network_rank, place.network_rank, 0}, [this, station] {
      for (const auto& answer : std::exchange(station->held, {})) answer();
      TellObserver(*station);
    });
  return Seat{place, station, opened++};
}

void SimCore::CloseStation(const std::shared_ptr<SimStation>& station) {
  station->open = false;
  station->closed = true;
  station->observer = nullptr;
  station->events.clear();
  cables_.erase(station.get());
  auto peers = std::exchange(station->peers, {});
  if (killed_[station->network_rank]) return;  // its peers have been notified already
  for (auto& [rank, peer] : peers)
    if (!peer.goodbye_sent && peer.is_known_there()) SendLoss(station, peer, "its endpoint closed without a goodbye");
}

std::vector<Rank> SimCore::RanksToPoll() const {
  std::vector<Rank> ranks;
  for (const auto& [name, station] : stations_) {
    const Rank rank = name.place.network_rank;
    if (!station->open || !station->needs_poll || killed_[rank] || paused(rank)) continue;
    // The map is sorted by rank, so equal ranks follow each other.
    if (ranks.empty() || ranks.back() != rank) ranks.push_back(rank);
  }
  return ranks;
}

// ---- lanes ----

SimCore::Attached SimCore::Attach(const Seat& seat, const EndpointConfig& config, const LaneName& name) {
  const auto& self = seat.station;
  const Place low = std::min(seat.place, name.place);
  const Place high = std::max(seat.place, name.place);
  const int side = seat.place == low ? 0 : 1;
  const CableName cable_name{low, high, config.communicator, config.rail, seat.incarnation, name.index};
  const auto& peer = StationOf({name.place, config.communicator, config.rail, seat.incarnation}, name.peer);

  std::shared_ptr<SimCable> cable;
  bool fresh = false;  // true: this side makes the cable; false: the other side has already made it
  if (const auto found = half_open_.find(cable_name); found != half_open_.end()) {
    cable = found->second;
    half_open_.erase(found);
  } else {
    cable = std::make_shared<SimCable>();
    cable->communicator = config.communicator;
    cable->index = name.index;
    for (int s : {0, 1}) {
      cable->pipes[s].ring.resize(options_.buffer_bytes);
      cable->pipes[s].sender = s == side ? self : peer;
      cable->pipes[s].receiver = s == side ? peer : self;
    }
    half_open_.emplace(cable_name, cable);
    fresh = true;
  }
  Attached attached{cable, side};
  cables_[self.get()].emplace_back(cable, side);
  if (killed_[seat.place.network_rank]) return attached;
  // The control connection must begin before the lane.
  BeginControl(seat, config, name, peer);
  BeginLane(seat, config, name, attached);
  if (fresh && (peer->closed || killed_[name.place.network_rank])) End(cable, 1 - side, SimEnd::kGone);
  return attached;
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
      if (cable->broken || killed_[arriving.receiver->network_rank]) return;
      if (!arriving.sources.empty()) {
        ReadSources(arriving, arriving.delivered + bytes);
        arriving.release_news = true;
        arriving.sender->Touch();
      }
      if (!stream_faults_.empty() && MeetFaults(cable, side, bytes)) return;
      ++counters.deliveries;
      arriving.delivered += bytes;
      arriving.arrival_news = true;
      arriving.receiver->Touch();
    });
  }
}

void SimCore::ReadSources(SimPipe& pipe, std::uint64_t until) {
  while (!pipe.sources.empty() && pipe.sources.front().offset < until) {
    SimPipe::Source& source = pipe.sources.front();
    const Bytes due = source.bytes.first(std::min<std::uint64_t>(source.bytes.size(), until - source.offset));
    const std::size_t at = source.offset % pipe.ring.size();
    const std::size_t first = std::min(due.size(), pipe.ring.size() - at);
    std::copy_n(due.data(), first, pipe.ring.data() + at);
    std::copy_n(due.data() + first, due.size() - first, pipe.ring.data());
    source.offset += due.size();
    source.bytes = source.bytes.subspan(due.size());
    if (source.bytes.empty()) pipe.sources.pop_front();
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
    if (cable->broken || killed_[acked.sender->network_rank]) return;
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
  if (options_.sabotage.ignores_losses && how == SimEnd::kGone) return;
  if (options_.handshakes && !cable->connected[0] && !cable->connected[1])
    return;  // a lane that was never connected has no stream that could end
  const Rank from = pipe.sender->network_rank;
  const Rank to = pipe.receiver->network_rank;
  TimePoint at = DrawArrival(from, to, 0);
  if (how == SimEnd::kGone) at += Draw(options_.min_loss_delay, options_.max_loss_delay);
  pipe.last_arrival = std::max(at, pipe.last_arrival + Duration(1));
  Schedule(pipe.last_arrival, {Kind::kEnd, from, to, static_cast<std::uint64_t>(how)}, [this, cable, side, how] {
    SimPipe& ended = cable->pipes[side];
    if (cable->broken || killed_[ended.receiver->network_rank]) return;
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
