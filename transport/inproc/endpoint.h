// A rank's endpoint on an in-process network.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "transport/inproc/fabric.h"
#include "transport/inproc/lane.h"
#include "transport/transport.h"

namespace rondo {

class InprocEndpoint final : public Endpoint {
 public:
  // `network_ranks`: for each rank of this endpoint's world, its rank in the network, from config.addresses.
  InprocEndpoint(std::shared_ptr<InprocFabric> fabric, InprocFabric::Seat seat, EndpointConfig config,
                 std::vector<Rank> network_ranks);
  ~InprocEndpoint() override;

  Result<Lane*> Open(Rank peer, std::uint32_t index) override;
  void Poll(TimePoint now) override;
  bool Arm() override;
  void Disarm() override;
  int wait_fd() const override { return station_.bell.signal().fd(); }
  void Revoke() override;
  void ShutDown() override;
  void LeaveBehind(const ControlMessage& message) override;
  void Wake() override;
  bool SendControl(Rank peer, const ControlMessage& message) override;
  std::vector<Rank> ControlPeers() const override;
  bool IsConnected(Rank peer) const override;
  // The receiver's queue has the message when SendControl returns.
  bool ControlFlushed() const override { return true; }
  std::string_view TransportTo(Rank) const override { return "inproc"; }
  std::string DescribePeer(Rank peer) const override;
  LinkEnd LinkTo(Rank) const override { return {}; }

 private:
  void Attend();

  const std::shared_ptr<InprocFabric> fabric_;
  const InprocFabric::Seat seat_;
  InprocStation& station_;
  const EndpointConfig config_;
  const std::vector<Rank> network_ranks_;
  const bool lanes_need_polls_;

  std::map<std::pair<Rank, std::uint32_t>, InprocLane*> by_name_;
  std::vector<std::unique_ptr<InprocLane>> lanes_;
  std::uint64_t attended_ = 0;  // the value of the station's `attention` at the latest Poll
};

}  // namespace rondo
