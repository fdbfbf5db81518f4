// The endpoint of a faulty transport. It wraps the inner transport's endpoint, and wraps each lane when it is opened.
//
// Thread rule: see transport/transport.h.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transport/fault/fault_injector.h"
#include "transport/fault/faulty_lane.h"
#include "transport/transport.h"

namespace rondo::fault {

class FaultyEndpoint final : public Endpoint {
 public:
  FaultyEndpoint(std::unique_ptr<Endpoint> inner, Rank self, std::shared_ptr<FaultInjector> injector)
      : inner_(std::move(inner)), self_(self), injector_(std::move(injector)) {}

  Result<Lane*> Open(Rank peer, std::uint32_t index) override;
  bool MayHaveSharedSegment() const override {
    return injector_->plan().faults.empty() && inner_->MayHaveSharedSegment();
  }
  Result<SharedSegment*> OpenSharedSegment() override { return inner_->OpenSharedSegment(); }
  void Poll(TimePoint now) override;
  bool Arm() override;
  void Disarm() override { inner_->Disarm(); }
  int wait_fd() const override { return inner_->wait_fd(); }
  void Revoke() override { inner_->Revoke(); }
  void ShutDown() override { inner_->ShutDown(); }
  void LeaveBehind(const ControlMessage& message) override { inner_->LeaveBehind(message); }

  void Wake() override { inner_->Wake(); }
  bool SendControl(Rank peer, const ControlMessage& message) override;
  std::vector<Rank> ControlPeers() const override { return inner_->ControlPeers(); }
  bool IsConnected(Rank peer) const override { return inner_->IsConnected(peer); }
  bool ControlFlushed() const override { return inner_->ControlFlushed(); }
  std::string_view TransportTo(Rank peer) const override { return inner_->TransportTo(peer); }
  std::string DescribePeer(Rank peer) const override { return inner_->DescribePeer(peer); }
  LinkEnd LinkTo(Rank peer) const override { return inner_->LinkTo(peer); }

 private:
  const std::unique_ptr<Endpoint> inner_;  // outlives the lanes
  const Rank self_;
  const std::shared_ptr<FaultInjector> injector_;
  std::map<std::pair<Rank, std::uint32_t>, std::unique_ptr<FaultyLane>> lanes_;
};

}  // namespace rondo::fault
