#include "transport/inproc/fabric.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <new>
#include <string_view>

#include "base/check.h"

namespace rondo {

Error ErrorAbout(ErrorCode code, std::string message, Rank rank, Rank culprit) {
  return Error(code, std::move(message)).With([&](ErrorDetails& details) {
    details.rank = rank;
    details.culprit = culprit;
  });
}

void InprocLink::Raise(int side, SideState to) {
  SideState now = sides[side].load(std::memory_order_relaxed);
  while (now < to) {
    if (sides[side].compare_exchange_weak(now, to, std::memory_order_seq_cst)) {
      stations[1 - side]->CallAttention();
      return;
    }
  }
}

void InprocStation::QueueLoss(Rank peer, const std::string& how, bool is_before) {
  const auto found = peers.find(peer);
  if (closed || found == peers.end() || found->second.lost) return;
  found->second.lost = true;
  Event& event = events.emplace_back();
  event.from = peer;
  event.is_before = is_before;
  event.loss = ErrorAbout(ErrorCode::kPeerLost, fmt::format("rank {} died: {}", peer, how), rank, peer);
}

void InprocStation::QueueLeftBehind(Rank peer, const ControlMessage& message) {
  events.push_back({peer, message, std::nullopt});
  if (message.kind != ControlKind::kGoodbye) QueueLoss(peer, "its endpoint closed without a goodbye");
}

InprocFabric::InprocFabric(int world, const InprocOptions& o) : world_size(world), options(o), killed_(world) {
  RONDO_CHECK(world >= 1, "world size {}", world);
  RONDO_CHECK(o.ring_bytes >= kLineBytes && o.ring_bytes % kLineBytes == 0,
              "ring_bytes {} is not a positive multiple of {}", o.ring_bytes, kLineBytes);
}

InprocFabric::~InprocFabric() {
  for (auto& [name, station] : stations_) station->peers.clear();  // ends the reference cycles of stations and peers
}

std::string InprocFabric::AddressOf(Rank network_rank) const {
  return fmt::format("inproc://{}/{}", static_cast<const void*>(this), network_rank);
}

Result<Rank> InprocFabric::ParseAddress(const std::string& address) const {
  const std::string_view text(address);
  const std::size_t slash = text.rfind('/');
  Rank rank = kNoRank;
  if (slash != std::string_view::npos) {
    const auto [end, error] = std::from_chars(text.data() + slash + 1, text.data() + text.size(), rank);
    if (error != std::errc() || end != text.data() + text.size()) rank = kNoRank;
  }
  if (rank < 0 || rank >= world_size || address != AddressOf(rank))
    return Fail(ErrorCode::kUnreachable,
                "address '{}' does not belong to this in-process network, where {} is rank 0 of {}", address,
                AddressOf(0), world_size);
  return rank;
}

Result<InprocFabric::Seat> InprocFabric::OpenStation(Rank network_rank, const EndpointConfig& config) {
  std::lock_guard lock(mutex_);
  std::uint32_t& opened = incarnations_[{network_rank, config.communicator, config.rail, 0}];
  if (opened > 0) {
    const auto last = stations_.find({network_rank, config.communicator, config.rail, opened - 1});
    if (last != stations_.end() && last->second->open)
      return Fail(ErrorCode::kInvalidArgument, "rank {} already has an open endpoint for communicator {}, rail {}",
                  config.rank, config.communicator, config.rail);
  }
  const auto& station = StationOf({network_rank, config.communicator, config.rail, opened}, config.rank);
  RONDO_TRY(station->bell.signal().Open());
  station->open = true;
  return Seat{station, opened++};
}

void InprocFabric::CloseStation(const std::shared_ptr<InprocStation>& station) {
  std::map<Rank, InprocStation::Peer> peers;
  Rank rank = kNoRank;
  {
    std::lock_guard lock(mutex_);
    station->open = false;
    station->links.clear();
    station->bell.Disarm();  // afterwards no publisher writes to the descriptor
    station->bell.signal().Close();
    std::lock_guard station_lock(station->mutex);
    station->closed = true;
    station->events.clear();
    peers.swap(station->peers);
    rank = station->rank;
  }
  for (auto& [peer, record] : peers) {
    if (record.goodbye_sent) continue;
    std::lock_guard station_lock(record.station->mutex);
    record.station->QueueLoss(rank, "its endpoint closed without a goodbye");
    record.station->CallAttention();
  }
}

const std::shared_ptr<InprocStation>& InprocFabric::StationOf(const StationName& name, Rank rank) {
  auto& station = stations_[name];
  if (station == nullptr) {
    station = std::make_shared<InprocStation>();
    station->network_rank = name.network_rank;
    station->rank = rank;
    station->killed.store(killed_[name.network_rank], std::memory_order_relaxed);
  }
  return station;
}

Result<InprocFabric::Attached> InprocFabric::Attach(const Seat& seat, const EndpointConfig& config,
                                                    const LaneName& name) {
  const auto& self = seat.station;
  const Rank low = std::min(self->network_rank, name.network_peer);
  const Rank high = std::max(self->network_rank, name.network_peer);
  const int side = self->network_rank == low ? 0 : 1;
  const LinkName link_name{low, high, config.communicator, config.rail, seat.incarnation, name.index};

  std::lock_guard lock(mutex_);
  std::shared_ptr<InprocLink> link;
  bool fresh = false;  // false: the peer made the link, and records its own state in it
  const auto& peer = StationOf({name.network_peer, config.communicator, config.rail, seat.incarnation}, name.peer);
  if (const auto found = half_open_.find(link_name); found != half_open_.end()) {
    link = found->second;
    half_open_.erase(found);
  } else {
    try {
      link = std::make_shared<InprocLink>(options.ring_bytes);
    } catch (const std::bad_alloc&) {
      return Fail(ErrorCode::kOutOfMemory,
                  "memory ran out while creating a lane to rank {}, which needs two rings of {} bytes", name.peer,
                  options.ring_bytes);
    }
    link->stations[side] = self;
    link->stations[1 - side] = peer;
    half_open_.emplace(link_name, link);
    fresh = true;
  }
  self->links.emplace_back(link, side);
  if (killed_[self->network_rank]) {
    link->Raise(side, SideState::kKilled);
    return Attached{link, side};  // a killed rank connects to no peer
  }

  bool peer_gone = false;
  std::optional<ControlMessage> left_behind;
  {
    std::lock_guard peer_lock(peer->mutex);
    left_behind = peer->left_behind;
    if (!peer->closed && !left_behind) peer->peers.try_emplace(config.rank, InprocStation::Peer{self});
    peer_gone = peer->closed;
  }
  std::lock_guard self_lock(self->mutex);
  const bool is_new = self->peers.try_emplace(name.peer, InprocStation::Peer{peer}).second;
  if (killed_[name.network_peer]) {
    if (fresh) link->Raise(1 - side, SideState::kKilled);
    if (is_new) self->QueueLoss(name.peer, "it was killed before", /*is_before=*/true);
    self->CallAttention();
  } else if (left_behind && is_new) {
    if (fresh) link->Raise(1 - side, peer_gone ? SideState::kGone : SideState::kShutDown);
    self->QueueLeftBehind(name.peer, *left_behind);
    self->CallAttention();
  } else if (peer_gone) {
    if (fresh) link->Raise(1 - side, SideState::kGone);
    if (is_new) self->QueueLoss(name.peer, "its endpoint had closed before a connection was made", /*is_before=*/true);
    self->CallAttention();
  }
  return Attached{link, side};
}

void InprocFabric::Kill(Rank network_rank) {
  std::lock_guard lock(mutex_);
  if (killed_[network_rank]) return;
  killed_[network_rank] = true;
  for (auto& [name, station] : stations_) {
    if (name.network_rank != network_rank) continue;
    station->killed.store(true, std::memory_order_seq_cst);
    for (auto& [weak, side] : station->links)
      if (const auto link = weak.lock()) link->Raise(side, SideState::kKilled);

    std::map<Rank, InprocStation::Peer> peers;
    {
      std::lock_guard station_lock(station->mutex);
      station->events.clear();
      peers = station->peers;
    }
    for (auto& [peer, record] : peers) {
      if (record.goodbye_sent) continue;
      std::lock_guard station_lock(record.station->mutex);
      record.station->QueueLoss(station->rank, "it was killed");
      record.station->CallAttention();
    }
    station->CallAttention();
  }
}

}  // namespace rondo
