// The endpoint of RDMA: that of the base transport, whose lanes get reliable connections beside them
// (transport/upgrade/endpoint.h).
//
// Thread rule: as transport.h says.
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
  EndpointConfig config;                               // whose addresses are ours
  std::vector<bool> by_rdma;                           // by rank: MayUseRdma
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
  const std::vector<VerbsHandle<ibv_comp_channel>> channels_;  // by device; outlive the lanes
  bool armed_ = false;                                         // since the channels were last read

  // Guarded by mutex().
  std::map<Rank, std::map<std::uint32_t, std::string>> described_;  // by rail behind the first
  std::map<Rank, LinkEnd> links_;                                   // on the first
};

}  // namespace rondo::ib
