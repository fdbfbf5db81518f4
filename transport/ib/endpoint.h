// The endpoint of RDMA: that of the base transport, whose lanes get reliable connections beside them.
//
// Thread rule: as transport.h says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "transport/fd.h"
#include "transport/ib/address.h"
#include "transport/ib/device.h"
#include "transport/ib/lane.h"
#include "transport/transport.h"

namespace rondo::ib {

struct EndpointSetUp {
  EndpointConfig config;                               // whose addresses are ours
  std::vector<IbAddress> peers;                        // by rank
  std::vector<std::shared_ptr<const Device>> devices;  // one at least, in the order in which lanes try them
  std::size_t ring_bytes = 0;
  std::shared_ptr<const Registrations> registered;  // whose keys are in that order
  QueuePairOptions connection;
  bool may_be_plain = true;
  Logger* logger = nullptr;
};

// Whether lanes between the two begin to agree on RDMA: both have a port, and they need not share a host. Both sides
// find the same.
bool MayUseRdma(const IbAddress& a, const IbAddress& b);

class IbEndpoint final : public Endpoint {
 public:
  // `base` is open already.
  static Result<std::unique_ptr<Endpoint>> Create(EndpointSetUp set_up, std::unique_ptr<Endpoint> base);
  ~IbEndpoint() override;

  Result<Lane*> Open(Rank peer, std::uint32_t index) override;
  void Poll(TimePoint now) override;
  bool Arm() override;
  void Disarm() override;
  int wait_fd() const override { return poll_set_.get(); }
  void Revoke() override;
  void ShutDown() override;

  void Wake() override { base_->Wake(); }
  bool SendControl(Rank peer, const ControlMessage& message) override { return base_->SendControl(peer, message); }
  std::vector<Rank> ControlPeers() const override { return base_->ControlPeers(); }
  bool IsConnected(Rank peer) const override { return base_->IsConnected(peer); }
  bool ControlFlushed() const override { return base_->ControlFlushed(); }
  std::string_view TransportTo(Rank peer) const override;
  std::string DescribePeer(Rank peer) const override;
  LinkEnd LinkTo(Rank peer) const override;

 private:
  IbEndpoint(EndpointSetUp set_up, std::unique_ptr<Endpoint> base, std::vector<VerbsHandle<ibv_comp_channel>> channels,
             Fd poll_set);
  bool IsByRdma(Rank peer) const;
  void Note(const IbLane& lane);

  const EndpointSetUp set_up_;
  const std::unique_ptr<Endpoint> base_;                       // outlives the lanes
  const std::vector<VerbsHandle<ibv_comp_channel>> channels_;  // likewise; by device
  const Fd poll_set_;
  bool armed_ = false;  // since the channels were last read
  std::map<std::pair<Rank, std::uint32_t>, IbLane*> by_name_;
  std::vector<std::unique_ptr<IbLane>> lanes_;

  mutable std::mutex mutex_;                                        // guards what follows
  std::map<Rank, std::map<std::uint32_t, std::string>> described_;  // by rail behind the first
  std::map<Rank, LinkEnd> links_;                                   // on the first
  std::set<Rank> plain_;
};

}  // namespace rondo::ib
