#include "transport/inproc/endpoint.h"

#include <fmt/core.h>

#include <deque>

#include "base/check.h"

namespace rondo {

InprocEndpoint::InprocEndpoint(std::shared_ptr<InprocFabric> fabric, InprocFabric::Seat seat, EndpointConfig config,
                               std::vector<Rank> network_ranks)
    : fabric_(std::move(fabric)),
      seat_(std::move(seat)),
      station_(*seat_.station),
      config_(std::move(config)),
      network_ranks_(std::move(network_ranks)),
      lanes_need_polls_(fabric_->options.late_release || fabric_->options.slow_connect_polls > 0) {}

InprocEndpoint::~InprocEndpoint() {
  lanes_.clear();
  fabric_->CloseStation(seat_.station);
}

Result<Lane*> InprocEndpoint::Open(Rank peer, std::uint32_t index) {
  const Rank world = static_cast<Rank>(network_ranks_.size());
  if (peer < 0 || peer >= world || peer == config_.rank)
    return Fail(ErrorCode::kInvalidArgument,
                "rank {} cannot open a lane to rank {}: expected another rank of the {} in the group", config_.rank,
                peer, world);
  InprocLane*& lane = by_name_[{peer, index}];
  if (lane != nullptr) return lane;

  if (lanes_.size() >= fabric_->options.max_lanes) {
    by_name_.erase({peer, index});
    return Fail(ErrorCode::kResource, "lane {} to rank {} would be number {}; max_lanes is {}", index, peer,
                lanes_.size() + 1, fabric_->options.max_lanes);
  }
  auto attached = fabric_->Attach(seat_, config_, {network_ranks_[peer], peer, index});
  if (!attached) {
    by_name_.erase({peer, index});
    return Fail(std::move(attached).error());
  }
  // The random numbers depend on the lane's name, so that the order in which threads open lanes does not matter.
  Random random(fabric_->options.seed);
  for (std::uint64_t part : {config_.communicator, std::uint64_t{config_.rail}, std::uint64_t(station_.network_rank),
                             std::uint64_t(network_ranks_[peer]), std::uint64_t{index}})
    random = Random(random.Next() ^ part);
  const std::uint32_t slow = fabric_->options.slow_connect_polls;
  const std::uint32_t connecting_polls = slow == 0 ? 0 : static_cast<std::uint32_t>(random.Between(1, slow));
  lanes_.push_back(std::make_unique<InprocLane>(fabric_, std::move(*attached), config_.rank, peer, index,
                                                connecting_polls, random.Split()));
  lane = lanes_.back().get();
  lane->AdoptStates();
  return lane;
}

void InprocEndpoint::Poll(TimePoint) {
  if (station_.attention.load(std::memory_order_acquire) != attended_) [[unlikely]]
    Attend();
  if (lanes_need_polls_)
    for (auto& lane : lanes_) lane->Poll();
}

void InprocEndpoint::Attend() {
  // `attention` is loaded first, so that the next Poll finds later changes.
  attended_ = station_.attention.load(std::memory_order_acquire);
  for (auto& lane : lanes_) lane->AdoptStates();
  if (station_.killed.load(std::memory_order_acquire)) return;
  std::deque<InprocStation::Event> events;
  {
    std::lock_guard lock(station_.mutex);
    events.swap(station_.events);
  }
  if (config_.observer == nullptr) return;
  for (auto& event : events) {
    if (event.loss && event.is_before)
      config_.observer->OnPeerEndedBefore(event.from, std::move(*event.loss));
    else if (event.loss)
      config_.observer->OnPeerLost(event.from, std::move(*event.loss));
    else
      config_.observer->OnControl(event.from, std::move(event.message));
  }
}

bool InprocEndpoint::Arm() {
  if (station_.bell.Arm()) return true;
  bool news =
      station_.wake.load(std::memory_order_seq_cst) || station_.attention.load(std::memory_order_seq_cst) != attended_;
  for (auto& lane : lanes_) news = lane->HasNews() || news;
  return news;
}

void InprocEndpoint::Disarm() {
  station_.bell.Disarm();
  // Takes a pending Wake, because the owner checks all lanes next.
  if (station_.wake.load(std::memory_order_relaxed)) station_.wake.exchange(false, std::memory_order_seq_cst);
}

void InprocEndpoint::Revoke() {
  for (auto& lane : lanes_) lane->Revoke();
}

void InprocEndpoint::ShutDown() {
  for (auto& lane : lanes_) lane->ShutDown();
  std::lock_guard lock(station_.mutex);
  station_.shut_down = true;
}

void InprocEndpoint::LeaveBehind(const ControlMessage& message) {
  std::lock_guard lock(station_.mutex);
  station_.left_behind = message;
}

void InprocEndpoint::Wake() {
  station_.wake.store(true, std::memory_order_seq_cst);
  station_.bell.Ring();
}

bool InprocEndpoint::SendControl(Rank peer, const ControlMessage& message) {
  RONDO_CHECK(message.body.size() <= kMaxControlBodyBytes, "control body of {} bytes", message.body.size());
  std::shared_ptr<InprocStation> target;
  {
    std::lock_guard lock(station_.mutex);
    const auto found = station_.peers.find(peer);
    if (found == station_.peers.end() || found->second.lost || station_.shut_down || station_.killed) return false;
    target = found->second.station;
    if (message.kind == ControlKind::kGoodbye) found->second.goodbye_sent = true;
  }
  {
    std::lock_guard lock(target->mutex);
    const bool full = target->events.size() >= InprocStation::kMaxEvents && message.kind != ControlKind::kGoodbye;
    if (target->closed || target->killed || full) return false;
    target->events.push_back({config_.rank, message, std::nullopt});
  }
  target->CallAttention();
  return true;
}

std::vector<Rank> InprocEndpoint::ControlPeers() const {
  std::lock_guard lock(station_.mutex);
  std::vector<Rank> ranks;
  for (const auto& [rank, peer] : station_.peers)
    if (!peer.lost) ranks.push_back(rank);
  return ranks;
}

bool InprocEndpoint::IsConnected(Rank peer) const {
  std::lock_guard lock(station_.mutex);
  const auto found = station_.peers.find(peer);
  return found != station_.peers.end() && !found->second.lost;
}

std::string InprocEndpoint::DescribePeer(Rank peer) const {
  if (peer < 0 || peer >= static_cast<Rank>(network_ranks_.size())) return fmt::format("no rank {}", peer);
  return fmt::format("{}, this process (rings of {} bytes)", config_.addresses[peer], fabric_->options.ring_bytes);
}

}  // namespace rondo
