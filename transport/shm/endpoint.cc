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
#include "base/net/descriptors.h"
#include "transport/lane_index.h"
#include "transport/shm/fd_passing.h"

namespace rondo::shm {
namespace {

// The largest number of messages that may wait for a lane to take them. Peers that follow the protocol never leave so
// many.
constexpr std::size_t kMaxRequests = 1024;

bool DrawNonce(Nonce& nonce) { return getrandom(nonce.data(), nonce.size(), 0) == static_cast<ssize_t>(nonce.size()); }

}  // namespace

std::string SocketName(const std::string& instance, std::uint64_t communicator, std::uint32_t rail) {
  return fmt::format("rondo-shm/{}/{:x}/{:x}", instance, communicator, rail);
}

Result<std::unique_ptr<Endpoint>> ShmEndpoint::Create(EndpointSetUp set_up, std::unique_ptr<Endpoint> base,
                                                      Fd listener) {
  Fd signal(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  Fd poll_set(epoll_create1(EPOLL_CLOEXEC));
  if (!signal || !poll_set || !AddToPollSet(poll_set.get(), signal.get()) ||
      !AddToPollSet(poll_set.get(), base->wait_fd()))
    return Fail(ErrorCode::kResource, "cannot create the file descriptors that wake a shared-memory endpoint: {}",
                SystemWords(errno));
  return std::make_unique<ShmEndpoint>(std::move(set_up), std::move(base), std::move(listener), std::move(signal),
                                       std::move(poll_set));
}

ShmEndpoint::ShmEndpoint(EndpointSetUp set_up, std::unique_ptr<Endpoint> base, Fd listener, Fd signal, Fd poll_set)
    : UpgradedEndpoint("shm", std::move(base), std::move(poll_set), set_up.here),
      set_up_(std::move(set_up)),
      listener_(std::move(listener)),
      signal_(std::move(signal)) {}

std::unique_ptr<ShmLane> ShmEndpoint::MakeLane(Lane& base, std::uint32_t index) {
  LaneContext context{
      .ring_bytes = set_up_.ring_bytes,
      .signal = signal_.get(),
      .peer_socket = SocketOf(base.peer()),
      .find_request = [this](const ConnectMessage& message) { return FindRequest(message); },
      .draw_nonce = DrawNonce,
      .step = [this](std::string_view step) { Step(step); },
  };
  auto lane = std::make_unique<ShmLane>(std::move(context), base, set_up_.config.rank, index);
  lane->Poll({});
  return lane;
}

std::optional<ConnectRequest> ShmEndpoint::FindRequest(const ConnectMessage& message) {
  TakeRequests();
  const auto found = std::find_if(requests_.begin(), requests_.end(),
                                  [&](const ConnectRequest& request) { return request.message == message; });
  if (found == requests_.end()) return std::nullopt;
  ConnectRequest request = std::move(*found);
  requests_.erase(found);
  return request;
}

std::string ShmEndpoint::SocketOf(Rank peer) const {
  return SocketName(set_up_.peers[static_cast<std::size_t>(peer)].instance, set_up_.config.communicator,
                    set_up_.config.rail);
}

void ShmEndpoint::Step(std::string_view step) const {
  if (set_up_.watch_steps) set_up_.watch_steps(step);
}

bool ShmEndpoint::MayHaveSharedSegment() const {
  const auto world = static_cast<int>(set_up_.peers.size());
  if (world < 2 || world > kMaxSharedSegmentRanks) return false;
  for (Rank r = 0; r < world; ++r)
    if (r != set_up_.config.rank && !IsUpgraded(r)) return false;
  return true;
}

Result<SharedSegment*> ShmEndpoint::OpenSharedSegment() {
  if (segment_) return &*segment_;
  RONDO_CHECK(MayHaveSharedSegment(), "a shared segment of ranks of several hosts");
  const EndpointConfig& config = set_up_.config;
  const auto world = static_cast<int>(set_up_.peers.size());
  std::vector<Lane*> lanes(config.rank == 0 ? static_cast<std::size_t>(world) : 1);
  for (Rank r = config.rank == 0 ? 1 : 0; r < (config.rank == 0 ? world : 1); ++r) {
    RONDO_ASSIGN(lanes[static_cast<std::size_t>(r)], base().Open(r, kSharedSegmentLaneIndex));
  }
  segment_.emplace(SharedSegmentContext{
      .rank = config.rank,
      .world_size = world,
      .signal = signal_.get(),
      .root_socket = SocketOf(0),
      .lanes = std::move(lanes),
      .find_request = [this](Rank from) { return FindRequest({.kind = ConnectKind::kSharedSegment, .from = from}); },
      .draw_nonce = DrawNonce,
      .step = [this](std::string_view step) { Step(step); },
      .regions = {.own = set_up_.regions,
                  .rank = config.rank,
                  .world_size = world,
                  .socket_of = [this](Rank peer) { return SocketOf(peer); },
                  .find_request =
                      [this](Rank from, std::uint32_t region) {
                        return FindRequest({.kind = ConnectKind::kRegion, .from = from, .index = region});
                      },
                  .step = [this](std::string_view step) { Step(step); }},
  });
  return &*segment_;
}

// Keeps a connection whose message has not arrived yet, and checks it again in the next call.
void ShmEndpoint::TakeRequests() {
  while (Fd connection = listener_ ? AcceptNext(listener_.get()) : Fd())
    if (HasTrustedUid(connection.get()) && silent_.size() < kMaxRequests) silent_.push_back(std::move(connection));
  std::erase_if(silent_, [&](Fd& connection) {
    ConnectRequest request;
    auto received = ReceiveWith(connection.get(), std::as_writable_bytes(std::span(&request.message, 1)), 2);
    if (received && !received->came) return false;
    const std::size_t due = request.message.kind == ConnectKind::kLane ? 2 : 1;
    if (!received || received->descriptors.size() != due || requests_.size() >= kMaxRequests) return true;
    request.connection = std::move(connection);
    if (request.message.kind != ConnectKind::kRegion) request.signal = std::move(received->descriptors.front());
    if (request.message.kind != ConnectKind::kSharedSegment) request.segment = std::move(received->descriptors.back());
    requests_.push_back(std::move(request));
    return true;
  });
}

void ShmEndpoint::Poll(TimePoint now) {
  UpgradedEndpoint::Poll(now);
  if (!segment_ || segment_->state() != SharedSegmentState::kMaking) return;
  segment_->Poll();
  const std::lock_guard lock(mutex());
  has_segment_ = true;
  segment_state_ = segment_->state();
}

// No wake-up is lost (transport/doorbell.h): if the doorbell is rung after Arm, the poll set becomes
// readable; if it was rung before, Arm returns true.
bool ShmEndpoint::Arm() {
  const bool news = UpgradedEndpoint::Arm();
  return (segment_ && segment_->Arm()) || news;
}

void ShmEndpoint::Disarm() {
  UpgradedEndpoint::Disarm();
  for (const auto& lane : lanes()) lane->Disarm();
  if (segment_) segment_->Disarm();
  EventFdRef(signal_.get()).Take();
}

std::string ShmEndpoint::DescribePath(Rank peer) const {
  std::string path;
  if (IsUpgraded(peer) && has_segment_)
    path = segment_state_ == SharedSegmentState::kMaking ? "agreeing on a shared segment" : segment_->Describe();
  if (const auto found = described_.find(peer); found != described_.end())
    path += (path.empty() ? "" : ", ") + found->second;
  return path;
}

}  // namespace rondo::shm
