// The owner's half of an endpoint: its lanes, its poll set, and sleeping. The control thread's half is in group.h.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "transport/tcp/control_plane.h"
#include "transport/tcp/group.h"
#include "transport/tcp/mailbox.h"
#include "transport/tcp/socket_lane.h"
#include "transport/transport.h"

namespace rondo::tcp {

class TcpEndpoint final : public Endpoint {
 public:
  static Result<std::unique_ptr<Endpoint>> Create(const std::shared_ptr<ControlPlane>& plane,
                                                  const EndpointConfig& config);
  TcpEndpoint(std::shared_ptr<ControlPlane> plane, std::shared_ptr<Group> group, std::shared_ptr<Mailbox> mailbox,
              Fd poll_set);
  ~TcpEndpoint() override;

  Result<Lane*> Open(Rank peer, std::uint32_t index) override;
  void Poll(TimePoint now) override;
  bool Arm() override;
  void Disarm() override;
  int wait_fd() const override { return poll_set_.get(); }
  void Revoke() override;
  void ShutDown() override;
  void LeaveBehind(const ControlMessage& message) override { group_->LeaveBehind(message); }

  void Wake() override { mailbox_->Wake(); }
  bool SendControl(Rank peer, const ControlMessage& message) override { return group_->SendControl(peer, message); }
  std::vector<Rank> ControlPeers() const override { return group_->ControlPeers(); }
  bool IsConnected(Rank peer) const override { return group_->IsConnected(peer); }
  bool ControlFlushed() const override { return group_->ControlFlushed(); }
  std::string_view TransportTo(Rank) const override { return "tcp"; }
  std::string DescribePeer(Rank peer) const override { return group_->DescribePeer(peer); }
  LinkEnd LinkTo(Rank peer) const override { return group_->LinkTo(peer); }

 private:
  using LaneName = std::pair<Rank, std::uint32_t>;

  Status CheckDescriptors(Rank peer) const;
  void TakeDeliveries();
  void Adopt(SocketLane& lane, Delivery delivery);
  // Takes the pending edges (of edge-triggered epoll) from the poll set and passes them to their lanes. True: the owner
  // must look at one of these lanes (SocketLane::Note).
  bool Harvest();

  const int owner_pid_;
  const std::shared_ptr<ControlPlane> plane_;
  const std::shared_ptr<Group> group_;
  const std::shared_ptr<Mailbox> mailbox_;
  const Fd poll_set_;
  std::map<LaneName, std::unique_ptr<SocketLane>> lanes_;
  // Lanes with accepted bytes that are not sent yet. Poll continues to send these bytes.
  std::vector<SocketLane*> flushed_;
  std::map<LaneName, std::vector<Delivery>> unclaimed_;  // lanes that only the peer has opened
  TimePoint next_harvest_{};
  bool unseen_news_ = false;  // Poll harvested an event for the owner; the next Arm returns true
  bool shut_down_ = false;
};

}  // namespace rondo::tcp
