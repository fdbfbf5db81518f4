// A transport and an endpoint that forward every call to another transport and endpoint, for tests that change or
// observe them (passing_lane.h has the lane).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transport/transport.h"

namespace rondo {

class PassingEndpoint : public Endpoint {
 public:
  explicit PassingEndpoint(std::unique_ptr<Endpoint> inner) : inner_(std::move(inner)) {}

  Result<Lane*> Open(Rank peer, std::uint32_t index) override { return inner_->Open(peer, index); }
  bool MayHaveSharedSegment() const override { return inner_->MayHaveSharedSegment(); }
  Result<SharedSegment*> OpenSharedSegment() override { return inner_->OpenSharedSegment(); }
  void Poll(TimePoint now) override { inner_->Poll(now); }
  bool Arm() override { return inner_->Arm(); }
  void Disarm() override { inner_->Disarm(); }
  int wait_fd() const override { return inner_->wait_fd(); }
  void Revoke() override { inner_->Revoke(); }
  void ShutDown() override { inner_->ShutDown(); }
  void LeaveBehind(const ControlMessage& message) override { inner_->LeaveBehind(message); }
  void Wake() override { inner_->Wake(); }
  bool SendControl(Rank peer, const ControlMessage& message) override { return inner_->SendControl(peer, message); }
  std::vector<Rank> ControlPeers() const override { return inner_->ControlPeers(); }
  bool IsConnected(Rank peer) const override { return inner_->IsConnected(peer); }
  bool ControlFlushed() const override { return inner_->ControlFlushed(); }
  std::string_view TransportTo(Rank peer) const override { return inner_->TransportTo(peer); }
  std::string DescribePeer(Rank peer) const override { return inner_->DescribePeer(peer); }
  LinkEnd LinkTo(Rank peer) const override { return inner_->LinkTo(peer); }

 protected:
  // Destroys the inner endpoint. Destructors of derived classes call it if their members must outlive the inner
  // endpoint.
  void EndInner() { inner_.reset(); }

 private:
  std::unique_ptr<Endpoint> inner_;
};

class PassingTransport : public Transport {
 public:
  explicit PassingTransport(std::shared_ptr<Transport> inner) : inner_(std::move(inner)) {}

  std::string_view name() const override { return inner_->name(); }
  const Capabilities& capabilities() const override { return inner_->capabilities(); }
  std::string Address() const override { return inner_->Address(); }
  std::string DescribeAddress() const override { return inner_->DescribeAddress(); }
  Result<std::unique_ptr<Endpoint>> OpenEndpoint(const EndpointConfig& config) override {
    return inner_->OpenEndpoint(config);
  }
  Result<std::unique_ptr<Memory>> Allocate(std::size_t bytes) override { return inner_->Allocate(bytes); }
  Result<std::unique_ptr<Registration>> Register(MutableBytes memory) override { return inner_->Register(memory); }
  DeviceRegistrar* device_registrar() override { return inner_->device_registrar(); }

 protected:
  Transport& inner() const { return *inner_; }

 private:
  const std::shared_ptr<Transport> inner_;
};

}  // namespace rondo
