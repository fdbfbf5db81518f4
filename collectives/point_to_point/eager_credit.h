// The credit for eager messages on one lane: what this rank may still send unasked, and what its peer may. It counts
// places in the stream (CreditOf), in all since the lane began, so a count that a header carries can be repeated or
// left out without harm.
//
// Thread rule: values.
#pragma once

#include <cstdint>

#include "collectives/point_to_point/message_frame.h"

namespace rondo {

class EagerCredit {
 public:
  // `limit_bytes`: unreturned at most, in each direction; equal on both ranks.
  explicit EagerCredit(std::uint64_t limit_bytes) : limit_(limit_bytes) {}

  // ---- what this rank sends ----

  bool Allows(std::uint64_t message_bytes) const { return spent_ + CreditOf(message_bytes) <= limit_ + regained_; }
  void Spend(std::uint64_t message_bytes) { spent_ += CreditOf(message_bytes); }
  // The peer has returned so much in all. False: it cannot have, for that is less than before or more than was spent.
  bool Regain(std::uint64_t total) {
    if (total < regained_ || total > spent_) return false;
    regained_ = total;
    return true;
  }
  std::uint64_t spent() const { return spent_; }
  std::uint64_t regained() const { return regained_; }

  // ---- what its peer sends ----

  // A message has come. False: the peer had not so much credit.
  bool Take(std::uint64_t message_bytes) {
    taken_ += CreditOf(message_bytes);
    return taken_ <= limit_ + returned_;
  }
  // The message takes no memory of this rank any more: its credit is to be returned.
  void Owe(std::uint64_t message_bytes) { owed_ += CreditOf(message_bytes); }
  // Whether so much is owed that it must not wait for a header that goes out anyway.
  bool OwesMuch() const { return owed_ > returned_ && (owed_ - returned_) * kReturnFraction >= limit_; }
  // What the next header returns in all.
  std::uint64_t Return() { return returned_ = owed_; }

 private:
  // Credit goes back with whatever is sent; by itself once this part of it is owed.
  static constexpr std::uint64_t kReturnFraction = 4;

  std::uint64_t limit_;
  std::uint64_t spent_ = 0;
  std::uint64_t regained_ = 0;
  std::uint64_t taken_ = 0;
  std::uint64_t owed_ = 0;
  std::uint64_t returned_ = 0;
};

}  // namespace rondo
