#include "transport/tcp/endpoint.h"

#include <fmt/core.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <utility>

#include "transport/tcp/address.h"
#include "transport/tcp/lane.h"
#include "transport/tcp/tls_lane.h"

namespace rondo::tcp {
namespace {

constexpr Duration kHarvestInterval = std::chrono::milliseconds(1);

bool Watch(int poll_set, int fd, std::uint32_t events, SocketLane* lane) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = lane;  // null: the mailbox's event descriptor
  return epoll_ctl(poll_set, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

Result<std::unique_ptr<Endpoint>> TcpEndpoint::Create(const std::shared_ptr<ControlPlane>& plane,
                                                      const EndpointConfig& config) {
  GroupConfig group;
  group.communicator = config.communicator;
  group.rail = config.rail;
  group.rank = config.rank;
  group.observer = config.observer;
  group.connect_timeout = config.connect_timeout;
  group.frame = config.frame;
  if (config.rank < 0 || static_cast<std::size_t>(config.rank) >= config.addresses.size()) {
    return Fail(ErrorCode::kInvalidArgument, "rank {} is outside the group, which has {} addresses", config.rank,
                config.addresses.size());
  }
  if (config.observer == nullptr)
    return Fail(ErrorCode::kInvalidArgument, "EndpointConfig::observer is null; an endpoint needs an observer");
  for (std::size_t rank = 0; rank < config.addresses.size(); ++rank) {
    Result<TcpAddress> address = DecodeTcpAddress(config.addresses[rank]);
    if (!address) {
      return Fail(Error(address.error().code(), fmt::format("rank {}: {}", rank, address.error().message())));
    }
    group.peers.push_back(std::move(*address));
  }
  RONDO_ASSIGN(const std::shared_ptr<Mailbox> mailbox, Mailbox::Create());
  group.mailbox = mailbox;
  Fd poll_set(epoll_create1(EPOLL_CLOEXEC));
  // The mailbox's descriptor is watched level-triggered, because Disarm empties the mailbox.
  if (!poll_set || !Watch(poll_set.get(), mailbox->event_fd(), EPOLLIN, nullptr)) {
    return Fail(SystemError(errno, "cannot create an epoll set for an endpoint", ErrorCode::kResource));
  }
  RONDO_ASSIGN(std::shared_ptr<Group> opened, plane->OpenGroup(std::move(group)));
  try {
    return std::make_unique<TcpEndpoint>(plane, opened, mailbox, std::move(poll_set));
  } catch (const std::bad_alloc&) {
    plane->CloseGroup(opened);  // the group must be closed, because it uses the observer
    throw;
  }
}

TcpEndpoint::TcpEndpoint(std::shared_ptr<ControlPlane> plane, std::shared_ptr<Group> group,
                         std::shared_ptr<Mailbox> mailbox, Fd poll_set)
    : owner_pid_(getpid()),
      plane_(std::move(plane)),
      group_(std::move(group)),
      mailbox_(std::move(mailbox)),
      poll_set_(std::move(poll_set)) {}

TcpEndpoint::~TcpEndpoint() {
  if (getpid() != owner_pid_) {
    // A forked child has no control thread, and shares the poll set with the parent. So nothing is destroyed here.
    for (auto& [name, lane] : lanes_) (void)lane.release();
    (void)new (std::nothrow) std::map(std::move(unclaimed_));
    (void)new (std::nothrow) std::pair(plane_, group_);
    return;
  }
  plane_->CloseGroup(group_);
  if (shut_down_) {
    for (auto& [name, lane] : lanes_) lane->DrainBeforeClose();
  }
}

Status TcpEndpoint::CheckDescriptors(Rank peer) const {
  // Lanes that are being connected have no descriptor yet, but will need one.
  std::size_t need = 0, lanes = 0;
  for (const auto& [name, lane] : lanes_) lanes += lane->state() == LaneState::kConnecting ? 1 : 0;
  for (const Rank known : group_->ControlPeers()) need += known != peer && !group_->IsConnected(known) ? 1 : 0;
  const std::size_t sockets = plane_->options().split_local_lanes && group_->SameHostAs(peer) ? 2 : 1;
  need += (lanes + 1) * sockets + (group_->IsConnected(peer) ? 0 : 1);
  const DescriptorUse use = CountDescriptors();
  if (use.open + need <= use.limit) return {};
  return Fail(ErrorCode::kResource,
              "a lane to rank {} needs {} more file descriptors, and {} of {} are open; raise the limit (ulimit -n)",
              peer, need, use.open, use.limit);
}

Result<Lane*> TcpEndpoint::Open(Rank peer, std::uint32_t index) {
  const LaneName name{peer, index};
  if (const auto found = lanes_.find(name); found != lanes_.end()) return found->second.get();
  const GroupConfig& config = group_->config();
  if (peer < 0 || static_cast<std::size_t>(peer) >= config.peers.size() || peer == config.rank) {
    return Fail(ErrorCode::kInvalidArgument,
                "rank {} cannot open a lane to rank {}: expected another rank of the {} in the group", config.rank,
                peer, config.peers.size());
  }
  if (index >= plane_->options().max_lanes_per_peer) {
    return Fail(ErrorCode::kResource, "cannot open lane {} to rank {}: at most {} lanes per peer are allowed", index,
                peer, plane_->options().max_lanes_per_peer);
  }
  TakeDeliveries();
  const auto waiting = unclaimed_.find(name);
  if (waiting == unclaimed_.end()) RONDO_TRY(CheckDescriptors(peer));
  LanePeer names{config.rank, peer, config.peers[static_cast<std::size_t>(peer)].host};
  std::unique_ptr<SocketLane> lane;
  if (plane_->options().tls) {
    lane = std::make_unique<TlsLane>(std::move(names), index);
    flushed_.reserve(flushed_.size() + 1);
  } else {
    lane = std::make_unique<TcpLane>(std::move(names), index);
  }
  SocketLane* const raw = lane.get();
  lanes_.emplace(name, std::move(lane));
  if (plane_->options().tls) flushed_.push_back(raw);
  if (waiting != unclaimed_.end()) {
    for (Delivery& delivery : waiting->second) Adopt(*raw, std::move(delivery));
    unclaimed_.erase(waiting);
  }
  // OpenLane has no effect if the peer has connected the lane already.
  if (raw->state() == LaneState::kConnecting) plane_->OpenLane(group_, peer, index);
  return raw;
}

// Arrived bytes need no search here, because the owner finds them when it reads a lane. But the owner does not read a
// lane on which it expects no bytes, so the end of such a lane must be found here. A rare check is enough, and costs a
// spinning owner few system calls.
void TcpEndpoint::Poll(TimePoint now) {
  if (mailbox_->has_deliveries()) TakeDeliveries();
  for (SocketLane* const lane : flushed_) lane->Flush();
  if (now < next_harvest_) return;
  next_harvest_ = now + kHarvestInterval;
  unseen_news_ = Harvest() || unseen_news_;
}

void TcpEndpoint::TakeDeliveries() {
  for (Delivery& delivery : mailbox_->Take()) {
    const LaneName name{delivery.peer, delivery.index};
    if (const auto lane = lanes_.find(name); lane != lanes_.end()) {
      Adopt(*lane->second, std::move(delivery));
    } else {
      unclaimed_[name].push_back(std::move(delivery));
    }
  }
}

void TcpEndpoint::Adopt(SocketLane& lane, Delivery delivery) {
  if (delivery.failure) return lane.FailWith(std::move(*delivery.failure));
  // The socket is added once and stays in the set, so every later change makes an edge. Bytes that have arrived already
  // make the first edge.
  if (!Watch(poll_set_.get(), delivery.fd.get(), EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, &lane)) {
    return lane.FailWith(SystemError(errno, "a lane's socket cannot be watched", ErrorCode::kResource));
  }
  // Bytes that TLS has already read from the socket make no edge, so they are noted here.
  unseen_news_ = unseen_news_ || (delivery.tls != nullptr && delivery.tls->HasReceived());
  lane.Adopt(std::move(delivery));
}

// Why no wake-up is lost. Every lane's socket is in the poll set, edge-triggered, from the time it was adopted, and is
// never removed or added again. An edge stays in the set until Harvest takes it. If a lane had no bytes or no room, any
// change makes an edge. Arriving bytes always make one. New room makes one because the kernel noted the lack of room
// when it cut the write short.
//   - If the edge precedes Arm's Harvest, Arm finds it, sees that it is news (SocketLane::Note), and returns true.
//   - If the edge follows Arm's Harvest, it stays in the set, so wait_fd() is readable.
//   - If Poll has taken the edge, Arm returns true as well.
//   - Disarm calls Harvest, too. The owner polls all lanes again before its next Arm, and so finds the bytes or the
//     room that made those edges. Edges after Disarm stay in the set for the next Arm.
// Harvest drops edges that are not news: bytes that a polling owner has already read, and room that no lane waits for.
// So these edges cause no needless wake-up.
bool TcpEndpoint::Harvest() {
  std::array<epoll_event, 64> events;
  bool news = false;
  while (true) {
    const int count = epoll_wait(poll_set_.get(), events.data(), static_cast<int>(events.size()), 0);
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      auto* const lane = static_cast<SocketLane*>(event.data.ptr);
      const bool is_news = lane == nullptr || lane->Note(event.events);
      news = news || is_news;
    }
    if (count < static_cast<int>(events.size())) return news;
  }
}

bool TcpEndpoint::Arm() {
  const bool woken = mailbox_->Arm();
  const bool unseen = std::exchange(unseen_news_, false);
  return Harvest() || woken || unseen;
}

void TcpEndpoint::Disarm() {
  mailbox_->Disarm();
  Harvest();
  unseen_news_ = false;
}

void TcpEndpoint::Revoke() {
  for (auto& [name, lane] : lanes_) lane->Revoke();
}

void TcpEndpoint::ShutDown() {
  shut_down_ = true;
  for (auto& [name, lane] : lanes_) lane->ShutDownWriting();
  plane_->ShutDown(group_);
}

}  // namespace rondo::tcp
