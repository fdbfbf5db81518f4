#include "transport/ib/endpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace rondo::ib {
namespace {

bool Watch(int poll_set, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  return epoll_ctl(poll_set, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

bool MayUseRdma(const IbAddress& a, const IbAddress& b) {
  return !a.port.empty() && !b.port.empty() && (a.host_id.empty() || a.host_id != b.host_id);
}

Result<std::unique_ptr<Endpoint>> IbEndpoint::Create(EndpointSetUp set_up, std::unique_ptr<Endpoint> base) {
  const VerbsLibrary& verbs = set_up.device->verbs();
  VerbsHandle<ibv_comp_channel> channel{verbs.create_comp_channel(set_up.device->context()),
                                        {verbs.destroy_comp_channel}};
  if (channel == nullptr) return Fail(NotMade(set_up.device->port().Name(), "completion channel"));
  const int flags = fcntl(channel->fd, F_GETFL);
  Fd poll_set(epoll_create1(EPOLL_CLOEXEC));
  if (!poll_set || !Watch(poll_set.get(), base->wait_fd()) || fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
      !Watch(poll_set.get(), channel->fd))
    return Fail(ErrorCode::kResource, "no descriptors for the wake-up of an endpoint of RDMA: {}",
                std::strerror(errno));
  return std::unique_ptr<Endpoint>(
      new IbEndpoint(std::move(set_up), std::move(base), std::move(channel), std::move(poll_set)));
}

IbEndpoint::IbEndpoint(EndpointSetUp set_up, std::unique_ptr<Endpoint> base, VerbsHandle<ibv_comp_channel> channel,
                       Fd poll_set)
    : set_up_(std::move(set_up)),
      base_(std::move(base)),
      channel_(std::move(channel)),
      poll_set_(std::move(poll_set)) {}

// Events that came and were not taken belong to queues that are about to go.
IbEndpoint::~IbEndpoint() {
  armed_ = true;
  IbEndpoint::Disarm();
}

bool IbEndpoint::IsByRdma(Rank peer) const {
  const auto rank = static_cast<std::size_t>(peer);
  if (peer < 0 || rank >= set_up_.peers.size() || peer == set_up_.config.rank) return false;
  return MayUseRdma(set_up_.peers[rank], set_up_.peers[static_cast<std::size_t>(set_up_.config.rank)]);
}

Result<Lane*> IbEndpoint::Open(Rank peer, std::uint32_t index) {
  if (!IsByRdma(peer)) return base_->Open(peer, index);
  if (const auto found = by_name_.find({peer, index}); found != by_name_.end()) return found->second;
  RONDO_ASSIGN(Lane * base, base_->Open(peer, index));
  LaneContext context{.self = set_up_.config.rank,
                      .device = set_up_.device,
                      .channel = channel_.get(),
                      .stream = set_up_.stream,
                      .may_be_plain = set_up_.may_be_plain};
  lanes_.push_back(std::make_unique<IbLane>(std::move(context), *base, index));
  by_name_[{peer, index}] = lanes_.back().get();
  return lanes_.back().get();
}

void IbEndpoint::Poll(TimePoint now) {
  base_->Poll(now);
  for (const auto& lane : lanes_) {
    lane->Poll(now);
    if (lane->TakeChanged()) [[unlikely]]
      Note(*lane);
  }
}

// How things stand, for whoever asks on another thread.
void IbEndpoint::Note(const IbLane& lane) {
  const std::lock_guard lock(mutex_);
  described_[lane.peer()] = lane.Describe();
  if (lane.is_plain()) plain_.insert(lane.peer());
}

// Why no wake-up is lost: base lanes have their own argument (the base transport's Arm). A stream asks its completion
// queue for an event and looks at the queue again: a completion after that look makes the channel readable.
bool IbEndpoint::Arm() {
  armed_ = true;
  bool news = base_->Arm();
  for (const auto& lane : lanes_) news = lane->Arm() || news;
  return news;
}

void IbEndpoint::Disarm() {
  base_->Disarm();
  if (!std::exchange(armed_, false)) return;  // a read of the channel is a system call
  ibv_cq* queue = nullptr;
  void* own = nullptr;
  while (set_up_.device->verbs().get_cq_event(channel_.get(), &queue, &own) == 0) static_cast<Stream*>(own)->OnEvent();
}

void IbEndpoint::Revoke() {
  for (const auto& lane : lanes_) lane->Revoke();
  base_->Revoke();
}

void IbEndpoint::ShutDown() {
  for (const auto& lane : lanes_) lane->ShutDown();
  base_->ShutDown();
}

std::string_view IbEndpoint::TransportTo(Rank peer) const {
  const std::lock_guard lock(mutex_);
  return IsByRdma(peer) && !plain_.contains(peer) ? "ib" : base_->TransportTo(peer);
}

std::string IbEndpoint::DescribePeer(Rank peer) const {
  const std::lock_guard lock(mutex_);
  const auto found = described_.find(peer);
  return found == described_.end() ? base_->DescribePeer(peer)
                                   : fmt::format("{}; beside it {}", found->second, base_->DescribePeer(peer));
}

double IbEndpoint::LineGbps(Rank peer) const {
  const std::lock_guard lock(mutex_);
  return IsByRdma(peer) && !plain_.contains(peer) ? set_up_.device->port().line_gbps : base_->LineGbps(peer);
}

}  // namespace rondo::ib
