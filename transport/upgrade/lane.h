// The common part of upgraded lanes. An upgraded lane begins as a lane of a base transport. Over that lane its two ends
// agree on a faster path. If they cannot agree, the upgraded lane is "plain": the base lane carries the stream, after
// the messages of the agreement.
//
// If the base lane ends, before or after the agreement, the peer has shut down or is dead.
//
// Thread rule: the owner of the endpoint.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "transport/lane.h"
#include "transport/upgrade/message.h"

namespace rondo {

// The class of a lane must also have these functions, which its endpoint (endpoint.h) calls:
//   void Poll(TimePoint now)          continues the agreement; state() changes only here
//   bool Arm()                        true: the owner must not sleep
//   void ShutDown()
//   bool is_plain() const
class UpgradedLane : public Lane {
 public:
  Rank peer() const final { return base_.peer(); }
  std::uint32_t index() const { return index_; }
  LaneState state() const final { return state_; }
  const Error* failure() const final;
  void Revoke() override;

  // Whether the path has changed since the latest call of this function.
  bool TakeChanged() { return std::exchange(changed_, false); }

 protected:
  // `base` must outlive the lane, and only the lane uses it. `self` is this rank.
  UpgradedLane(Lane& base, Rank self, std::uint32_t index) : base_(base), self_(self), index_(index) {}

  // The initiator is the higher rank. It sends the first message.
  bool is_initiator() const { return self_ > base_.peer(); }
  // Push sends a message over the base lane. False: the lane has not taken the whole message yet. REQUIRES: the message
  // is not sent yet. Next returns the next message; empty: it has not arrived yet.
  template <typename Message>
  bool Push(MessageSender<Message>& sender) {
    if (!sender.Push(base_)) return false;
    agreed_out_ += sizeof(Message);
    return true;
  }
  template <typename Message>
  std::optional<Message> Next(MessageReader<Message>& reader) {
    std::optional<Message> message = reader.Next(base_);
    if (message) agreed_in_ += sizeof(Message);
    return message;
  }
  // The offsets of a plain lane's stream. They do not count the messages of the agreement.
  std::uint64_t PlainAccepted() const { return base_.accepted() - agreed_out_; }
  std::uint64_t PlainReleased() const { return std::max(base_.released(), agreed_out_) - agreed_out_; }
  std::uint64_t PlainConsumed() const { return base_.consumed() - agreed_in_; }

  // FailWith does nothing if the lane has failed already.
  void FailWith(ErrorCode code, std::string_view message, Rank culprit);
  void FailWith(ErrorCode code, std::string_view message) { FailWith(code, message, peer()); }

  Lane& base_;
  const Rank self_;
  const std::uint32_t index_;
  LaneState state_ = LaneState::kConnecting;
  // This lane's own failure. If it is empty and the lane has failed, the reason is the base lane's failure.
  std::optional<Error> failure_;
  bool may_send_ = true;
  bool revoked_ = false;
  bool changed_ = false;

 private:
  std::uint64_t agreed_out_ = 0;  // the number of bytes of messages sent over the base lane
  std::uint64_t agreed_in_ = 0;
};

}  // namespace rondo
