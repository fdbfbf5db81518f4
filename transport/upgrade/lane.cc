#include "transport/upgrade/lane.h"

#include <fmt/core.h>

#include "base/out_of_memory.h"

namespace rondo {

const Error* UpgradedLane::failure() const {
  if (state_ != LaneState::kFailed) return nullptr;
  return failure_ ? &*failure_ : base_.failure();
}

void UpgradedLane::FailWith(ErrorCode code, std::string_view message, Rank culprit) {
  if (state_ == LaneState::kFailed) return;
  ErrorDetails details;
  details.code = code;
  details.message = fmt::format("lane {} with rank {}: {}", index_, base_.peer(), message);
  details.rank = self_;
  details.culprit = culprit;
  failure_.emplace(std::move(details));
  state_ = LaneState::kFailed;
}

void UpgradedLane::Revoke() {
  revoked_ = true;
  may_send_ = false;
  if (!IfMemoryAllows([&] { FailWith(ErrorCode::kClosed, "it was given up", self_); })) {
    failure_ = Error::MemoryRanOut();
    state_ = LaneState::kFailed;
  }
  base_.Revoke();
}

}  // namespace rondo
