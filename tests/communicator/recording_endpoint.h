// An endpoint that moves no bytes, and records what a communicator does with its control connections.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transport/transport.h"

namespace rondo {

class RecordingEndpoint final : public Endpoint {
 public:
  // The test sets these.
  std::vector<Rank> connected;
  std::function<void()> on_send = [] {};
  bool is_flushed = true;
  // The test reads these.
  std::vector<std::pair<Rank, ControlMessage>> sent;
  std::vector<ControlMessage> left_behind;
  int wakes = 0;

  Result<Lane*> Open(Rank peer, std::uint32_t) override {
    return Fail(ErrorCode::kUnsupported, "no lane to rank {}", peer);
  }
  void Poll(TimePoint) override {}
  bool Arm() override { return false; }
  void Disarm() override {}
  int wait_fd() const override { return -1; }
  void Revoke() override {}
  void ShutDown() override {}
  void LeaveBehind(const ControlMessage& message) override { left_behind.push_back(message); }
  void Wake() override { ++wakes; }
  bool SendControl(Rank peer, const ControlMessage& message) override {
    on_send();
    if (!IsConnected(peer)) return false;
    sent.emplace_back(peer, message);
    return true;
  }
  std::vector<Rank> ControlPeers() const override { return connected; }
  bool IsConnected(Rank peer) const override {
    return std::find(connected.begin(), connected.end(), peer) != connected.end();
  }
  bool ControlFlushed() const override { return is_flushed; }
  std::string_view TransportTo(Rank) const override { return "none"; }
  std::string DescribePeer(Rank) const override { return ""; }
  LinkEnd LinkTo(Rank) const override { return {}; }
};

}  // namespace rondo
