// The endpoint of shared memory. It wraps an endpoint of the base transport, and upgrades that endpoint's lanes to
// ranks of this host to rings in shared memory (transport/upgrade/endpoint.h).
//
// Thread rule: see transport/transport.h.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/net/fd.h"
#include "transport/shm/address.h"
#include "transport/shm/lane.h"
#include "transport/shm/regions.h"
#include "transport/shm/shared_segment.h"
#include "transport/transport.h"
#include "transport/upgrade/endpoint.h"

namespace rondo::shm {

struct EndpointSetUp {
  EndpointConfig config;          // its addresses are those of the shared-memory transport
  std::vector<ShmAddress> peers;  // by rank
  std::vector<bool> here;         // by rank: whether it is another rank of this host
  std::size_t ring_bytes = 0;
  std::function<void(std::string_view)> watch_steps;
  std::shared_ptr<const Regions> regions;
};

class ShmEndpoint final : public UpgradedEndpoint<ShmLane> {
 public:
  // `base` is open already.
  static Result<std::unique_ptr<Endpoint>> Create(EndpointSetUp set_up, std::unique_ptr<Endpoint> base, Fd listener);
  ShmEndpoint(EndpointSetUp set_up, std::unique_ptr<Endpoint> base, Fd listener, Fd signal, Fd poll_set);

  bool MayHaveSharedSegment() const override;
  Result<SharedSegment*> OpenSharedSegment() override;
  void Poll(TimePoint now) override;
  bool Arm() override;
  void Disarm() override;

 private:
  std::unique_ptr<ShmLane> MakeLane(Lane& base, std::uint32_t index) override;
  void Note(const ShmLane& lane) override { described_[lane.peer()] = lane.Describe(); }
  std::string DescribePath(Rank peer) const override;
  LinkEnd LinkOfPath(Rank) const override { return {}; }
  std::optional<ConnectRequest> FindRequest(const ConnectMessage& message);
  void TakeRequests();
  std::string SocketOf(Rank peer) const;
  void Step(std::string_view step) const;

  const EndpointSetUp set_up_;
  const Fd listener_;  // empty if the system forbids abstract sockets
  const Fd signal_;
  std::optional<ShmSharedSegment> segment_;
  std::vector<Fd> silent_;                // connections whose message has not arrived yet
  std::vector<ConnectRequest> requests_;  // messages that no lane has taken yet

  // Guarded by mutex().
  std::map<Rank, std::string> described_;
  // The state of segment_ at its latest Poll. When that state is final, segment_ no longer changes.
  SharedSegmentState segment_state_ = SharedSegmentState::kNone;
  bool has_segment_ = false;
};

// The abstract name of an endpoint's socket.
std::string SocketName(const std::string& instance, std::uint64_t communicator, std::uint32_t rail);

}  // namespace rondo::shm
