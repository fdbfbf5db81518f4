#include "transport/shm/endpoint.h"

#include <fmt/core.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include "base/check.h"
#include "base/descriptors.h"
#include "transport/lane_index.h"
#include "transport/shm/meeting.h"

namespace rondo::shm {
namespace {

// Of calls that no lane has asked for: more than a peer that keeps to the rules leaves behind.
constexpr std::size_t kMaxCalls = 1024;

bool Watch(int poll_set, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  return epoll_ctl(poll_set, EPOLL_CTL_ADD, fd, &event) == 0;
}

bool DrawNonce(Nonce& nonce) { return getrandom(nonce.data(), nonce.size(), 0) == static_cast<ssize_t>(nonce.size()); }

}  // namespace

std::string SocketName(const std::string& instance, std::uint64_t communicator, std::uint32_t rail) {
  return fmt::format("rondo-shm/{}/{:x}/{:x}", instance, communicator, rail);
}

Result<std::unique_ptr<Endpoint>> ShmEndpoint::Create(EndpointSetUp set_up, std::unique_ptr<Endpoint> base,
                                                      Fd listener) {
  Fd signal(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  Fd poll_set(epoll_create1(EPOLL_CLOEXEC));
  if (!signal || !poll_set || !Watch(poll_set.get(), signal.get()) || !Watch(poll_set.get(), base->wait_fd()))
    return Fail(ErrorCode::kResource, "no descriptors for the wake-up of an endpoint in shared memory: {}",
                SystemWords(errno));
  return std::make_unique<ShmEndpoint>(std::move(set_up), std::move(base), std::move(listener), std::move(signal),
                                       std::move(poll_set));
}

ShmEndpoint::ShmEndpoint(EndpointSetUp set_up, std::unique_ptr<Endpoint> base, Fd listener, Fd signal, Fd poll_set)
    : set_up_(std::move(set_up)),
      base_(std::move(base)),
      listener_(std::move(listener)),
      signal_(std::move(signal)),
      poll_set_(std::move(poll_set)) {}

bool ShmEndpoint::IsHere(Rank peer) const {
  const auto rank = static_cast<std::size_t>(peer);
  if (peer < 0 || rank >= set_up_.peers.size() || peer == set_up_.config.rank) return false;
  return SameHost(set_up_.peers[rank], set_up_.peers[static_cast<std::size_t>(set_up_.config.rank)]);
}

Result<Lane*> ShmEndpoint::Open(Rank peer, std::uint32_t index) {
  if (!IsHere(peer)) return base_->Open(peer, index);
  if (const auto found = by_name_.find({peer, index}); found != by_name_.end()) return found->second;
  RONDO_ASSIGN(Lane * base, base_->Open(peer, index));
  const EndpointConfig& config = set_up_.config;
  LaneContext context{
      .self = config.rank,
      .ring_bytes = set_up_.ring_bytes,
      .signal = signal_.get(),
      .peer_socket = SocketOf(peer),
      .find_call = [this](const CallMessage& message) { return FindCall(message); },
      .draw_nonce = DrawNonce,
      .step = [this](std::string_view step) { Step(step); },
  };
  lanes_.push_back(std::make_unique<ShmLane>(std::move(context), *base, index));
  by_name_[{peer, index}] = lanes_.back().get();
  lanes_.back()->Poll();
  return lanes_.back().get();
}

std::optional<Call> ShmEndpoint::FindCall(const CallMessage& message) {
  TakeCalls();
  const auto found =
      std::find_if(calls_.begin(), calls_.end(), [&](const Call& call) { return call.message == message; });
  if (found == calls_.end()) return std::nullopt;
  Call call = std::move(*found);
  calls_.erase(found);
  return call;
}

std::string ShmEndpoint::SocketOf(Rank peer) const {
  return SocketName(set_up_.peers[static_cast<std::size_t>(peer)].instance, set_up_.config.communicator,
                    set_up_.config.rail);
}

void ShmEndpoint::Step(std::string_view step) const {
  if (set_up_.watch_steps) set_up_.watch_steps(step);
}

bool ShmEndpoint::MayHaveBoard() const {
  const auto world = static_cast<int>(set_up_.peers.size());
  if (world < 2 || world > kMaxBoardRanks) return false;
  for (Rank r = 0; r < world; ++r)
    if (r != set_up_.config.rank && !IsHere(r)) return false;
  return true;
}

Result<Board*> ShmEndpoint::OpenBoard() {
  if (board_) return &*board_;
  RONDO_CHECK(MayHaveBoard(), "a board of ranks of several hosts");
  const EndpointConfig& config = set_up_.config;
  const auto world = static_cast<int>(set_up_.peers.size());
  std::vector<Lane*> lanes(config.rank == 0 ? static_cast<std::size_t>(world) : 1);
  for (Rank r = config.rank == 0 ? 1 : 0; r < (config.rank == 0 ? world : 1); ++r) {
    RONDO_ASSIGN(lanes[static_cast<std::size_t>(r)], base_->Open(r, kSharedSegmentLaneIndex));
  }
  board_.emplace(BoardContext{
      .rank = config.rank,
      .world_size = world,
      .signal = signal_.get(),
      .root_socket = SocketOf(0),
      .lanes = std::move(lanes),
      .find_call = [this](Rank from) { return FindCall({.kind = CallKind::kBoard, .from = from}); },
      .draw_nonce = DrawNonce,
      .step = [this](std::string_view step) { Step(step); },
      .regions = {.own = set_up_.regions,
                  .rank = config.rank,
                  .world_size = world,
                  .socket_of = [this](Rank peer) { return SocketOf(peer); },
                  .find_call =
                      [this](Rank from, std::uint32_t region) {
                        return FindCall({.kind = CallKind::kRegion, .from = from, .index = region});
                      },
                  .step = [this](std::string_view step) { Step(step); }},
  });
  return &*board_;
}

// Who has connected may be about to leave its message: it is looked at again.
void ShmEndpoint::TakeCalls() {
  while (Fd connection = listener_ ? NextCaller(listener_.get()) : Fd())
    if (IsFriend(connection.get()) && silent_.size() < kMaxCalls) silent_.push_back(std::move(connection));
  std::erase_if(silent_, [&](Fd& connection) {
    Call call;
    auto received = ReceiveWith(connection.get(), std::as_writable_bytes(std::span(&call.message, 1)), 2);
    if (received && !received->came) return false;
    const std::size_t due = call.message.kind == CallKind::kLane ? 2 : 1;
    if (!received || received->descriptors.size() != due || calls_.size() >= kMaxCalls) return true;
    call.connection = std::move(connection);
    if (call.message.kind != CallKind::kRegion) call.signal = std::move(received->descriptors.front());
    if (call.message.kind != CallKind::kBoard) call.segment = std::move(received->descriptors.back());
    calls_.push_back(std::move(call));
    return true;
  });
}

void ShmEndpoint::Poll(TimePoint now) {
  base_->Poll(now);
  for (const auto& lane : lanes_) {
    lane->Poll();
    if (lane->TakeChanged()) [[unlikely]]
      Note(*lane);
  }
  if (!board_ || board_->state() != BoardState::kMaking) return;
  board_->Poll();
  const std::lock_guard lock(mutex_);
  has_board_ = true;
  board_state_ = board_->state();
}

// How things stand, for whoever asks on another thread.
void ShmEndpoint::Note(const ShmLane& lane) {
  const std::lock_guard lock(mutex_);
  described_[lane.peer()] = lane.Describe();
  if (lane.is_plain()) plain_.insert(lane.peer());
}

// Why no wake-up is lost: base lanes have their own argument (the base transport's Arm); a ring's is that of the bell.
// The signal of a bell that is rung after Arm makes the poll set readable; one that was rung before makes Arm say so.
bool ShmEndpoint::Arm() {
  bool news = base_->Arm();
  for (const auto& lane : lanes_) news = lane->Arm() || news;
  if (board_) news = board_->Arm() || news;
  return news;
}

void ShmEndpoint::Disarm() {
  base_->Disarm();
  for (const auto& lane : lanes_) lane->Disarm();
  if (board_) board_->Disarm();
  Signal(signal_.get()).Take();
}

void ShmEndpoint::Revoke() {
  for (const auto& lane : lanes_) lane->Revoke();
  base_->Revoke();
}

void ShmEndpoint::ShutDown() {
  for (const auto& lane : lanes_) lane->ShutDown();
  base_->ShutDown();
}

std::string_view ShmEndpoint::TransportTo(Rank peer) const {
  const std::lock_guard lock(mutex_);
  return IsHere(peer) && !plain_.contains(peer) ? "shm" : base_->TransportTo(peer);
}

std::string ShmEndpoint::DescribePeer(Rank peer) const {
  std::string how;
  {
    const std::lock_guard lock(mutex_);
    if (IsHere(peer) && has_board_)
      how = board_state_ == BoardState::kMaking ? "agreeing on a board" : board_->Describe();
    if (const auto found = described_.find(peer); found != described_.end())
      how += (how.empty() ? "" : ", ") + found->second;
  }
  return how.empty() ? base_->DescribePeer(peer) : fmt::format("{}; beside it {}", how, base_->DescribePeer(peer));
}

LinkEnd ShmEndpoint::LinkTo(Rank peer) const { return TransportTo(peer) == "shm" ? LinkEnd{} : base_->LinkTo(peer); }

}  // namespace rondo::shm
