#include "transport/sim/endpoint.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace rondo {

namespace {

Error ErrorAbout(ErrorCode code, std::string message, Rank rank, Rank culprit) {
  return Error(code, std::move(message)).With([&](ErrorDetails& details) {
    details.rank = rank;
    details.culprit = culprit;
  });
}

// The bytes from stream offset `from` on, as at most two contiguous pieces.
Arrived View(const SimPipe& pipe, std::uint64_t from, std::size_t bytes) {
  const std::size_t at = from % pipe.ring.size();
  const std::size_t first = std::min(bytes, pipe.ring.size() - at);
  return {Bytes(pipe.ring).subspan(at, first), Bytes(pipe.ring).first(bytes - first)};
}

}  // namespace

// ---- SimLane ----

SimLane::SimLane(std::shared_ptr<SimCore> core, SimCore::Attached attached, Rank self, Rank peer, std::uint32_t index)
    : core_(std::move(core)),
      cable_(std::move(attached.cable)),
      side_(attached.side),
      self_(self),
      peer_(peer),
      index_(index),
      out_(cable_->pipes[side_]),
      in_(cable_->pipes[1 - side_]) {}

SimLane::~SimLane() {
  SimCore::ReadSources(out_, out_.accepted);
  if (out_.end_sent != SimEnd::kShutDown && !core_->killed(out_.sender->network_rank))
    core_->End(cable_, side_, SimEnd::kGone);
}

LaneState SimLane::state() const {
  if (failed_) return LaneState::kFailed;
  if (!open_) return LaneState::kConnecting;
  if (end_ != SimEnd::kNone && in_.consumed == in_.delivered) return failure_ ? LaneState::kFailed : LaneState::kEnded;
  return LaneState::kOpen;
}

const Error* SimLane::failure() const { return state() == LaneState::kFailed ? &*failure_ : nullptr; }

bool SimLane::CanWrite() {
  if (!open_ || failed_ || out_.end_sent != SimEnd::kNone || core_->killed(out_.sender->network_rank)) return false;
  if (!failure_) return true;
  failed_ = true;  // like a socket: a write to a peer that has ended fails at once
  in_.arrival_news = true;
  return false;
}

std::size_t SimLane::Write(std::span<const Bytes> pieces) {
  if (!CanWrite()) return 0;
  std::size_t done = 0;
  out_.room_news = out_.short_write = false;
  for (Bytes piece : pieces) {
    const Bytes part = piece.first(std::min(piece.size(), Room()));
    if (!part.empty()) out_.sources.push_back({out_.accepted, part});
    out_.accepted += part.size();
    done += part.size();
    if (part.size() < piece.size()) {
      out_.short_write = true;
      ++core_->counters.full_writes;
      break;
    }
  }
  if (!core_->options().reads_late) SimCore::ReadSources(out_, out_.accepted);
  core_->Send(cable_, side_);
  return done;
}

std::uint64_t SimLane::released() const {
  out_.release_news = false;
  if (core_->options().sabotage.releases_early) return out_.accepted;
  if (core_->options().late_release) return out_.acked;
  return out_.sources.empty() ? out_.accepted : out_.sources.front().offset;
}

std::size_t SimLane::Available() const { return open_ && !revoked_ ? in_.delivered - in_.consumed : 0; }

Arrived SimLane::Peek(std::size_t) {
  in_.arrival_news = false;
  shown_ = Available();
  return View(in_, in_.consumed, shown_);
}

void SimLane::Consume(std::size_t bytes) {
  RONDO_CHECK(bytes <= shown_, "Consume of {} bytes where Peek showed {}", bytes, shown_);
  Advance(bytes);
}

std::size_t SimLane::ReadInto(MutableBytes destination) {
  in_.arrival_news = false;
  const Arrived arrived = View(in_, in_.consumed, std::min(destination.size(), Available()));
  std::copy(arrived.first.begin(), arrived.first.end(), destination.begin());
  std::copy(arrived.second.begin(), arrived.second.end(), destination.begin() + arrived.first.size());
  shown_ = std::max(shown_, arrived.size());
  Advance(arrived.size());
  return arrived.size();
}

void SimLane::Advance(std::size_t bytes) {
  if (bytes == 0) return;
  in_.consumed += bytes;
  shown_ -= bytes;
  core_->Acknowledge(cable_, 1 - side_);
}

void SimLane::Revoke() {
  if (revoked_) return;
  revoked_ = failed_ = true;
  SimCore::ReadSources(out_, out_.accepted);  // afterwards the network no longer accesses the owner's memory
  if (!failure_)
    failure_ = ErrorAbout(ErrorCode::kClosed, fmt::format("this rank revoked lane {} to rank {}", index_, peer_), self_,
                          self_);
  if (!core_->killed(out_.sender->network_rank)) core_->End(cable_, side_, SimEnd::kRevoked);
}

void SimLane::Poll() {
  open_ = cable_->connected[side_];
  if (end_ == in_.end) return;
  end_ = in_.end;
  if (failure_ || end_ == SimEnd::kShutDown) return;
  switch (end_) {
    case SimEnd::kRevoked:
      failure_ =
          ErrorAbout(ErrorCode::kConnectionReset, fmt::format("rank {} revoked lane {}", peer_, index_), self_, peer_);
      break;
    case SimEnd::kCut:
      failed_ = true;
      failure_ = ErrorAbout(ErrorCode::kConnectionReset, fmt::format("lane {} to rank {} was reset", index_, peer_),
                            self_, peer_);
      break;
    case SimEnd::kGone:
    case SimEnd::kNone:
    case SimEnd::kShutDown:
      failure_ =
          ErrorAbout(ErrorCode::kPeerLost, fmt::format("lane {} broke: rank {} ended", index_, peer_), self_, peer_);
      break;
  }
}

bool SimLane::HasNews() {
  const bool news = open_ != cable_->connected[side_] || in_.arrival_news || out_.room_news || out_.release_news;
  in_.arrival_news = out_.room_news = out_.release_news = false;
  return news && !revoked_;
}

void SimLane::ShutDown() {
  if (!core_->killed(out_.sender->network_rank)) core_->End(cable_, side_, SimEnd::kShutDown);
}

// ---- SimEndpoint ----

SimEndpoint::SimEndpoint(std::shared_ptr<SimCore> core, SimCore::Seat seat, EndpointConfig config,
                         std::vector<SimCore::Place> group)
    : core_(std::move(core)),
      seat_(std::move(seat)),
      station_(*seat_.station),
      config_(std::move(config)),
      group_(std::move(group)) {}

SimEndpoint::~SimEndpoint() {
  lanes_.clear();
  core_->CloseStation(seat_.station);
}

Result<Lane*> SimEndpoint::Open(Rank peer, std::uint32_t index) {
  const Rank world = static_cast<Rank>(group_.size());
  if (peer < 0 || peer >= world || peer == config_.rank)
    return Fail(ErrorCode::kInvalidArgument,
                "rank {} cannot open a lane to rank {}: expected another rank of the {} in the group", config_.rank,
                peer, world);
  if (const auto found = lanes_.find({peer, index}); found != lanes_.end()) return found->second.get();
  if (lanes_.size() >= core_->options().max_lanes)
    return Fail(ErrorCode::kResource, "lane {} to rank {} would be number {}; max_lanes is {}", index, peer,
                lanes_.size() + 1, core_->options().max_lanes);
  auto lane = std::make_unique<SimLane>(core_, core_->Attach(seat_, config_, {group_[peer], peer, index}), config_.rank,
                                        peer, index);
  return (lanes_[{peer, index}] = std::move(lane)).get();
}

void SimEndpoint::Poll(TimePoint) {
  station_.needs_poll = false;
  if (core_->killed(station_.network_rank)) return;
  for (auto& [name, lane] : lanes_) lane->Poll();
  while (!station_.events.empty()) {
    SimStation::Event event = std::move(station_.events.front());
    station_.events.pop_front();
    if (config_.observer == nullptr) continue;
    if (event.loss)
      config_.observer->OnPeerLost(event.from, std::move(*event.loss));
    else
      config_.observer->OnControl(event.from, std::move(event.message));
  }
}

bool SimEndpoint::Arm() {
  bool news = station_.news || !station_.events.empty();
  for (auto& [name, lane] : lanes_) news = lane->HasNews() || news;
  return news;
}

void SimEndpoint::Revoke() {
  for (auto& [name, lane] : lanes_) lane->Revoke();
}

void SimEndpoint::ShutDown() {
  for (auto& [name, lane] : lanes_) lane->ShutDown();
  station_.shut_down = true;
}

void SimEndpoint::Wake() {
  station_.news = true;
  station_.Touch();
}

bool SimEndpoint::SendControl(Rank peer, const ControlMessage& message) {
  RONDO_CHECK(message.body.size() <= kMaxControlBodyBytes, "control body of {} bytes", message.body.size());
  return core_->SendControl(seat_.station, peer, message);
}

std::vector<Rank> SimEndpoint::ControlPeers() const {
  std::vector<Rank> ranks;
  for (const auto& [rank, peer] : station_.peers)
    if (!peer.lost) ranks.push_back(rank);
  return ranks;
}

bool SimEndpoint::IsConnected(Rank peer) const {
  const auto found = station_.peers.find(peer);
  return found != station_.peers.end() && found->second.stands && !found->second.lost;
}

std::string SimEndpoint::DescribePeer(Rank peer) const {
  if (peer < 0 || peer >= static_cast<Rank>(group_.size())) return fmt::format("no rank {}", peer);
  return fmt::format("{}, on virtual time (buffers of {} bytes)", config_.addresses[peer],
                     core_->options().buffer_bytes);
}

}  // namespace rondo
