// Counts the credit for eager messages on one lane in both directions: how much this rank may still send, and how much
// its peer may still send. All counts are totals of stream bytes (CreditOf) since the lane began. So no harm is done if
// a header repeats a count or leaves one out.
//
// Thread rule: a plain value; callers synchronize.
#pragma once

#include <cstdint>

#include "collectives/point_to_point/message_frame.h"

namespace rondo {

class EagerCredit {
 public:
  // `limit_bytes`: the maximum of credit spent and not returned, in each direction; equal on both ranks.
  explicit EagerCredit(std::uint64_t limit_bytes) : limit_(limit_bytes) {}

  // ---- messages that this rank sends ----

  bool Allows(std::uint64_t message_bytes) const { return spent_ + CreditOf(message_bytes) <= limit_ + regained_; }
  void Spend(std::uint64_t message_bytes) { spent_ += CreditOf(message_bytes); }
  // The peer has returned `total` bytes of credit since the lane began. False: `total` is invalid, because it is less
  // than in the previous call or more than was spent.
  bool Regain(std::uint64_t total) {
    if (total < regained_ || total > spent_) return false;
    regained_ = total;
    return true;
  }
  std::uint64_t spent() const { return spent_; }
  std::uint64_t regained() const { return regained_; }

  // ---- messages that the peer sends ----

  // A message has arrived. False: the peer did not have enough credit for it.
  bool Take(std::uint64_t message_bytes) {
    taken_ += CreditOf(message_bytes);
    return taken_ <= limit_ + returned_;
  }
  // The message uses no memory of this rank any more, so its credit must be returned.
  void Owe(std::uint64_t message_bytes) { owed_ += CreditOf(message_bytes); }
  // Whether so much credit is owed that a frame must be sent only to return it.
  bool OwesMuch() const { return owed_ > returned_ && (owed_ - returned_) * kReturnFraction >= limit_; }
  // The total of returned credit that the next header must carry.
  std::uint64_t Return() { return returned_ = owed_; }

 private:
  // Every header returns the credit that is owed. A credit frame is sent when 1/kReturnFraction of the limit is owed.
  static constexpr std::uint64_t kReturnFraction = 4;

  std::uint64_t limit_;
  std::uint64_t spent_ = 0;
  std::uint64_t regained_ = 0;
  std::uint64_t taken_ = 0;
  std::uint64_t owed_ = 0;
  std::uint64_t returned_ = 0;
};

}  // namespace rondo
