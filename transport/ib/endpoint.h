// The endpoint of RDMA. It wraps an endpoint of the base transport, and upgrades that endpoint's lanes to reliable
// connections (transport/upgrade/endpoint.h).
//
// Thread rule: see transport/transport.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/net/fd.h"
#include "transport/ib/address.h"
#include "transport/ib/device.h"
#include "transport/ib/lane.h"
#include "transport/transport.h"
#include "transport/upgrade/endpoint.h"

namespace rondo::ib {

struct EndpointSetUp {
  EndpointConfig config;                               // its addresses are those of the RDMA transport
  std::vector<bool> by_rdma;                           // by rank: the result of MayUseRdma
  std::vector<std::shared_ptr<const Device>> devices;  // at least one, in the order in which lanes try them
  std::size_t ring_bytes = 0;
  std::shared_ptr<const Registrations> registered;  // the keys of each region are in the order of `devices`
  QueuePairOptions connection;
  bool may_be_plain = true;
  Logger* logger = nullptr;
};

// Whether lanes between the two processes try to agree on RDMA. Both processes must have a port, and they must not have
// equal host ids (IbOptions::host_id). Both sides get the same result.
bool MayUseRdma(const IbAddress& a, const IbAddress& b);

class IbEndpoint final : public UpgradedEndpoint<IbLane> {
 public:
  // `base` is open already.
  static Result<std::unique_ptr<Endpoint>> Create(EndpointSetUp set_up, std::unique_ptr<Endpoint> base);
  ~IbEndpoint() override;

  bool Arm() override;
  void Disarm() override;

 private:
  IbEndpoint(EndpointSetUp set_up, std::unique_ptr<Endpoint> base, std::vector<VerbsHandle<ibv_comp_channel>> channels,
             Fd poll_set);
  std::unique_ptr<IbLane> MakeLane(Lane& base, std::uint32_t index) override;
  void Note(const IbLane& lane) override;
  std::string DescribePath(Rank peer) const override;
  LinkEnd LinkOfPath(Rank peer) const override;

  const EndpointSetUp set_up_;
  const std::vector<VerbsHandle<ibv_comp_channel>> channels_;  // one for each device; the channels outlive the lanes
  bool armed_ = false;  // the owner has called Arm since the channels were last read

  // Guarded by mutex().
  std::map<Rank, std::map<std::uint32_t, std::string>> described_;  // by rank and rail: the description of the path
  std::map<Rank, LinkEnd> links_;                                   // by rank: the link of the first rail
};

}  // namespace rondo::ib
