// The common part of endpoints with upgraded lanes (lane.h). It has an endpoint of the base transport, which keeps the
// control connections and every lane that is not upgraded. It also has a poll set, which contains the base endpoint's
// wait_fd().
//
// No wake-up is lost. The base transport gives the reason for base lanes, and each derived class gives the reason for
// its own path.
//
// Thread rule: see transport/transport.h.
#pragma once

#include <fmt/core.h>

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/net/fd.h"
#include "transport/transport.h"

namespace rondo {

// False: the system has no resources to watch one more descriptor.
bool AddToPollSet(int poll_set, int fd);

// `UpgradedKind` is the class of the lanes. It is a template parameter, so that Poll and Arm call lanes without a
// virtual call.
template <typename UpgradedKind>
class UpgradedEndpoint : public Endpoint {
 public:
  Result<Lane*> Open(Rank peer, std::uint32_t index) override {
    if (!IsUpgraded(peer)) return base_->Open(peer, index);
    if (const auto found = by_name_.find({peer, index}); found != by_name_.end()) return found->second;
    RONDO_ASSIGN(Lane * base, base_->Open(peer, index));
    lanes_.push_back(MakeLane(*base, index));
    return by_name_[{peer, index}] = lanes_.back().get();
  }
  void Poll(TimePoint now) override {
    base_->Poll(now);
    for (const auto& lane : lanes_) {
      lane->Poll(now);
      if (lane->TakeChanged()) [[unlikely]]
        NoteChange(*lane);
    }
  }
  bool Arm() override {
    bool news = base_->Arm();
    for (const auto& lane : lanes_) news = lane->Arm() || news;
    return news;
  }
  void Disarm() override { base_->Disarm(); }
  int wait_fd() const final { return poll_set_.get(); }
  void Revoke() final {
    for (const auto& lane : lanes_) lane->Revoke();
    base_->Revoke();
  }
  void ShutDown() final {
    for (const auto& lane : lanes_) lane->ShutDown();
    base_->ShutDown();
  }
  void LeaveBehind(const ControlMessage& message) final { base_->LeaveBehind(message); }

  void Wake() final { base_->Wake(); }
  bool SendControl(Rank peer, const ControlMessage& message) final { return base_->SendControl(peer, message); }
  std::vector<Rank> ControlPeers() const final { return base_->ControlPeers(); }
  bool IsConnected(Rank peer) const final { return base_->IsConnected(peer); }
  bool ControlFlushed() const final { return base_->ControlFlushed(); }
  std::string_view TransportTo(Rank peer) const final {
    const std::lock_guard lock(mutex_);
    return IsFast(peer) ? name_ : base_->TransportTo(peer);
  }
  std::string DescribePeer(Rank peer) const final {
    std::string path;
    {
      const std::lock_guard lock(mutex_);
      path = DescribePath(peer);
    }
    return path.empty() ? base_->DescribePeer(peer) : fmt::format("{}; beside it {}", path, base_->DescribePeer(peer));
  }
  LinkEnd LinkTo(Rank peer) const final {
    const std::lock_guard lock(mutex_);
    return IsFast(peer) ? LinkOfPath(peer) : base_->LinkTo(peer);
  }

 protected:
  // `name`: the transport's name. `upgraded`: for each rank, whether lanes to it are upgraded; both ranks of a pair
  // must have the same value. `poll_set` watches base->wait_fd().
  UpgradedEndpoint(std::string_view name, std::unique_ptr<Endpoint> base, Fd poll_set, std::vector<bool> upgraded)
      : name_(name), upgraded_(std::move(upgraded)), base_(std::move(base)), poll_set_(std::move(poll_set)) {}

  virtual std::unique_ptr<UpgradedKind> MakeLane(Lane& base, std::uint32_t index) = 0;
  // Called when the path of a lane has changed. mutex() is locked during Note(), DescribePath() and LinkOfPath().
  virtual void Note(const UpgradedKind& lane) = 0;
  // A description of the path, for DescribePeer; empty: no path is known yet.
  virtual std::string DescribePath(Rank peer) const = 0;
  // REQUIRES: the path is not plain.
  virtual LinkEnd LinkOfPath(Rank peer) const = 0;

  bool IsUpgraded(Rank peer) const {
    return peer >= 0 && static_cast<std::size_t>(peer) < upgraded_.size() && upgraded_[static_cast<std::size_t>(peer)];
  }
  Endpoint& base() { return *base_; }
  const std::vector<std::unique_ptr<UpgradedKind>>& lanes() const { return lanes_; }
  // Guards the descriptions of paths, which other threads read.
  std::mutex& mutex() const { return mutex_; }
  // A derived class must call this in its destructor if the lanes use its members.
  void DropLanes() { lanes_.clear(); }

 private:
  bool IsFast(Rank peer) const { return IsUpgraded(peer) && !plain_.contains(peer); }
  void NoteChange(const UpgradedKind& lane) {
    const std::lock_guard lock(mutex_);
    if (lane.is_plain()) plain_.insert(lane.peer());
    Note(lane);
  }

  const std::string_view name_;
  const std::vector<bool> upgraded_;
  const std::unique_ptr<Endpoint> base_;  // outlives the lanes
  const Fd poll_set_;
  std::map<std::pair<Rank, std::uint32_t>, UpgradedKind*> by_name_;
  std::vector<std::unique_ptr<UpgradedKind>> lanes_;

  mutable std::mutex mutex_;
  std::set<Rank> plain_;  // guarded by mutex_: peers whose lanes could not be upgraded
};

}  // namespace rondo
