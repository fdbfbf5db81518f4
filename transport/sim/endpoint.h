// A rank's endpoint and lanes on the simulated network.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "transport/sim/core.h"
#include "transport/transport.h"

namespace rondo {

class SimLane final : public Lane {
 public:
  SimLane(std::shared_ptr<SimCore> core, SimCore::Attached attached, Rank self, Rank peer, std::uint32_t index);
  ~SimLane() override;

  Rank peer() const override { return peer_; }
  LaneState state() const override;
  const Error* failure() const override;
  std::size_t Write(std::span<const Bytes> pieces) override;
  std::uint64_t accepted() const override { return out_.accepted; }
  std::uint64_t released() const override;
  Arrived Peek(std::size_t want) override;
  void Consume(std::size_t bytes) override;
  std::size_t ReadInto(MutableBytes destination) override;
  bool Expect(std::uint64_t, MutableBytes) override { return false; }
  std::uint64_t consumed() const override { return in_.consumed; }
  void Revoke() override;

  // ---- for the endpoint ----
  // Takes over the other side's changes of state. The owner sees these changes only after this call.
  void Poll();
  bool HasNews();
  void ShutDown();

 private:
  bool CanWrite();
  std::size_t Room() const { return out_.ring.size() - (out_.accepted - out_.acked); }
  std::size_t Available() const;
  void Advance(std::size_t bytes);

  const std::shared_ptr<SimCore> core_;
  const std::shared_ptr<SimCable> cable_;
  const int side_;
  const Rank self_;
  const Rank peer_;
  const std::uint32_t index_;
  SimPipe& out_;
  SimPipe& in_;
  bool open_ = false;
  bool failed_ = false;
  bool revoked_ = false;
  SimEnd end_ = SimEnd::kNone;
  std::optional<Error> failure_;
  std::size_t shown_ = 0;
};

class SimEndpoint final : public Endpoint {
 public:
  SimEndpoint(std::shared_ptr<SimCore> core, SimCore::Seat seat, EndpointConfig config,
              std::vector<SimCore::Place> group);
  ~SimEndpoint() override;

  Result<Lane*> Open(Rank peer, std::uint32_t index) override;
  void Poll(TimePoint now) override;
  bool Arm() override;
  void Disarm() override { station_.news = false; }
  int wait_fd() const override { return -1; }
  void Revoke() override;
  void ShutDown() override;
  void LeaveBehind(const ControlMessage& message) override { station_.left_behind = message; }
  void Wake() override;
  bool SendControl(Rank peer, const ControlMessage& message) override;
  std::vector<Rank> ControlPeers() const override;
  bool IsConnected(Rank peer) const override;
  bool ControlFlushed() const override { return true; }  // the network has taken the message when SendControl returns
  std::string_view TransportTo(Rank) const override { return "sim"; }
  std::string DescribePeer(Rank peer) const override;
  LinkEnd LinkTo(Rank) const override { return {}; }

 private:
  const std::shared_ptr<SimCore> core_;
  const SimCore::Seat seat_;
  SimStation& station_;
  const EndpointConfig config_;
  const std::vector<SimCore::Place> group_;  // by rank
  std::map<std::pair<Rank, std::uint32_t>, std::unique_ptr<SimLane>> lanes_;
};

}  // namespace rondo
