#include "transport/ib/endpoint.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/epoll.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/descriptors.h"
#include "transport/lane_index.h"

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
  const auto no_descriptors = [] {
    return Fail(ErrorCode::kResource, "no descriptors for the wake-up of an endpoint of RDMA: {}", SystemWords(errno));
  };
  Fd poll_set(epoll_create1(EPOLL_CLOEXEC));
  if (!poll_set || !Watch(poll_set.get(), base->wait_fd())) return no_descriptors();
  std::vector<VerbsHandle<ibv_comp_channel>> channels;
  for (const auto& device : set_up.devices) {
    const VerbsLibrary& verbs = device->verbs();
    VerbsHandle<ibv_comp_channel> channel{verbs.create_comp_channel(device->context()), {verbs.destroy_comp_channel}};
    if (channel == nullptr) return Fail(NotMade(device->port().Name(), "completion channel"));
    const int flags = fcntl(channel->fd, F_GETFL);
    if (fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK) != 0 || !Watch(poll_set.get(), channel->fd))
      return no_descriptors();
    channels.push_back(std::move(channel));
  }
  return std::unique_ptr<Endpoint>(
      new IbEndpoint(std::move(set_up), std::move(base), std::move(channels), std::move(poll_set)));
}

IbEndpoint::IbEndpoint(EndpointSetUp set_up, std::unique_ptr<Endpoint> base,
                       std::vector<VerbsHandle<ibv_comp_channel>> channels, Fd poll_set)
    : set_up_(std::move(set_up)),
      base_(std::move(base)),
      channels_(std::move(channels)),
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
                      .ports = {},
                      .ring_bytes = set_up_.ring_bytes,
                      .registered = set_up_.registered,
                      .connection = set_up_.connection,
                      .may_be_plain = set_up_.may_be_plain,
                      .logger = set_up_.logger,
                      .frame = set_up_.config.frame};
  const std::uint32_t rail = set_up_.config.rail + RailOfLane(index);
  for (std::size_t turn = 0; turn < channels_.size(); ++turn) {
    const std::size_t i = (turn + rail) % channels_.size();
    context.ports.push_back({.device = set_up_.devices[i], .channel = channels_[i].get(), .key = i});
  }
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
  const std::uint32_t rail = RailOfLane(lane.index());
  described_[lane.peer()][rail] = lane.Describe();
  if (rail == 0) links_[lane.peer()] = lane.link();
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
  if (!std::exchange(armed_, false)) return;  // a read of a channel is a system call
  ibv_cq* queue = nullptr;
  void* own = nullptr;
  for (std::size_t i = 0; i < channels_.size(); ++i)
    while (set_up_.devices[i]->verbs().get_cq_event(channels_[i].get(), &queue, &own) == 0)
      static_cast<Stream*>(own)->OnEvent();
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
  if (found == described_.end()) return base_->DescribePeer(peer);
  std::string text;
  for (const auto& [rail, path] : found->second)
    text += rail == 0 ? path : fmt::format("{}rail {}: {}", text.empty() ? "" : "; ", rail, path);
  return fmt::format("{}; beside it {}", text, base_->DescribePeer(peer));
}

LinkEnd IbEndpoint::LinkTo(Rank peer) const {
  const std::lock_guard lock(mutex_);
  if (!IsByRdma(peer) || plain_.contains(peer)) return base_->LinkTo(peer);
  const auto found = links_.find(peer);
  return found == links_.end() ? LinkOf(set_up_.devices.front()->port(), set_up_.devices.front()->gid())
                               : found->second;
}

}  // namespace rondo::ib
