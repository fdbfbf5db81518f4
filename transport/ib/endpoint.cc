#include "transport/ib/endpoint.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/epoll.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/net/descriptors.h"
#include "transport/lane_index.h"

namespace rondo::ib {

bool MayUseRdma(const IbAddress& a, const IbAddress& b) {
  return !a.port.empty() && !b.port.empty() && (a.host_id.empty() || a.host_id != b.host_id);
}

Result<std::unique_ptr<Endpoint>> IbEndpoint::Create(EndpointSetUp set_up, std::unique_ptr<Endpoint> base) {
  const auto no_descriptors = [] {
    return Fail(ErrorCode::kResource, "cannot create the file descriptors that wake an RDMA endpoint: {}",
                SystemWords(errno));
  };
  Fd poll_set(epoll_create1(EPOLL_CLOEXEC));
  if (!poll_set || !AddToPollSet(poll_set.get(), base->wait_fd())) return no_descriptors();
  std::vector<VerbsHandle<ibv_comp_channel>> channels;
  for (const auto& device : set_up.devices) {
    const VerbsLibrary& verbs = device->verbs();
    VerbsHandle<ibv_comp_channel> channel{verbs.create_comp_channel(device->context()), {verbs.destroy_comp_channel}};
    if (channel == nullptr) return Fail(NotMade(device->port().Name(), "a completion channel"));
    const int flags = fcntl(channel->fd, F_GETFL);
    if (fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK) != 0 || !AddToPollSet(poll_set.get(), channel->fd))
      return no_descriptors();
    channels.push_back(std::move(channel));
  }
  return std::unique_ptr<Endpoint>(
      new IbEndpoint(std::move(set_up), std::move(base), std::move(channels), std::move(poll_set)));
}

IbEndpoint::IbEndpoint(EndpointSetUp set_up, std::unique_ptr<Endpoint> base,
                       std::vector<VerbsHandle<ibv_comp_channel>> channels, Fd poll_set)
    : UpgradedEndpoint("ib", std::move(base), std::move(poll_set), set_up.by_rdma),
      set_up_(std::move(set_up)),
      channels_(std::move(channels)) {}

// Takes all events first, because the queues to which they belong are destroyed next.
IbEndpoint::~IbEndpoint() {
  armed_ = true;
  IbEndpoint::Disarm();
  DropLanes();
}

std::unique_ptr<IbLane> IbEndpoint::MakeLane(Lane& base, std::uint32_t index) {
  LaneContext context{.ports = {},
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
  return std::make_unique<IbLane>(std::move(context), base, set_up_.config.rank, index);
}

void IbEndpoint::Note(const IbLane& lane) {
  const std::uint32_t rail = RailOfLane(lane.index());
  described_[lane.peer()][rail] = lane.Describe();
  if (rail == 0) links_[lane.peer()] = lane.link();
}

// No wake-up is lost: a stream requests an event from its completion queue and then checks the queue again. So a
// completion after that check makes the channel readable.
bool IbEndpoint::Arm() {
  armed_ = true;
  return UpgradedEndpoint::Arm();
}

void IbEndpoint::Disarm() {
  UpgradedEndpoint::Disarm();
  if (!std::exchange(armed_, false)) return;  // reading a channel takes a system call
  ibv_cq* queue = nullptr;
  void* own = nullptr;
  for (std::size_t i = 0; i < channels_.size(); ++i)
    while (set_up_.devices[i]->verbs().get_cq_event(channels_[i].get(), &queue, &own) == 0)
      static_cast<Stream*>(own)->OnEvent();
}

std::string IbEndpoint::DescribePath(Rank peer) const {
  const auto found = described_.find(peer);
  if (found == described_.end()) return "";
  std::string text;
  for (const auto& [rail, path] : found->second)
    text += rail == 0 ? path : fmt::format("{}rail {}: {}", text.empty() ? "" : "; ", rail, path);
  return text;
}

LinkEnd IbEndpoint::LinkOfPath(Rank peer) const {
  const auto found = links_.find(peer);
  return found == links_.end() ? LinkOf(set_up_.devices.front()->port(), set_up_.devices.front()->gid())
                               : found->second;
}

}  // namespace rondo::ib
