// The endpoint of shared memory: that of the base transport, whose lanes to ranks of this host get rings beside them.
//
// Thread rule: as transport.h says.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transport/fd.h"
#include "transport/shm/address.h"
#include "transport/shm/board.h"
#include "transport/shm/lane.h"
#include "transport/shm/regions.h"
#include "transport/transport.h"

namespace rondo::shm {

struct EndpointSetUp {
  EndpointConfig config;          // whose addresses are ours
  std::vector<ShmAddress> peers;  // by rank
  std::size_t ring_bytes = 0;
  std::function<void(std::string_view)> watch_steps;
  std::shared_ptr<const Regions> regions;
};

class ShmEndpoint final : public Endpoint {
 public:
  // `base` is open already.
  static Result<std::unique_ptr<Endpoint>> Create(EndpointSetUp set_up, std::unique_ptr<Endpoint> base, Fd listener);
  ShmEndpoint(EndpointSetUp set_up, std::unique_ptr<Endpoint> base, Fd listener, Fd signal, Fd poll_set);

  Result<Lane*> Open(Rank peer, std::uint32_t index) override;
  bool MayHaveBoard() const override;
  Result<Board*> OpenBoard() override;
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
  bool IsHere(Rank peer) const;
  std::optional<Call> FindCall(const CallMessage& message);
  void TakeCalls();
  std::string SocketOf(Rank peer) const;
  void Step(std::string_view step) const;
  void Note(const ShmLane& lane);

  const EndpointSetUp set_up_;
  const std::unique_ptr<Endpoint> base_;  // outlives the lanes
  const Fd listener_;                     // none where the system forbids it
  const Fd signal_;
  const Fd poll_set_;
  std::map<std::pair<Rank, std::uint32_t>, ShmLane*> by_name_;
  std::vector<std::unique_ptr<ShmLane>> lanes_;
  std::optional<ShmBoard> board_;
  std::vector<Fd> silent_;   // connected, nothing left yet
  std::vector<Call> calls_;  // left at the socket, not asked for yet

  mutable std::mutex mutex_;  // guards what follows
  std::map<Rank, std::string> described_;
  std::set<Rank> plain_;                        // here, and yet reached over the base transport
  BoardState board_state_ = BoardState::kNone;  // of the board, if it was ever asked for; once final, so is the board
  bool has_board_ = false;
};

// The abstract name of an endpoint's socket.
std::string SocketName(const std::string& instance, std::uint64_t communicator, std::uint32_t rail);

}  // namespace rondo::shm
