// Errors that name the rank at fault.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "collectives/engine/blocked_step.h"
#include "collectives/engine/frame.h"

namespace rondo {

// The message of a group's error if the group failed because its parent failed. The error's first cause is then the
// parent's error text.
inline constexpr std::string_view kParentFailed =
    "the communicator that this group was split from failed before its first operation ended";

inline Error WithCulprit(ErrorCode code, std::string message, Rank culprit) {
  return Error(code, std::move(message)).With([&](ErrorDetails& d) { d.culprit = culprit; });
}

// The error of rank `waits`, which needs rank `who` in operation `in`, but `who` closed after operation `last`.
// `refused`: the call that `who` refused before it closed; "": it refused none.
inline Error ClosedEarly(Rank who, const OperationDescriptor& last, Rank waits, const OperationDescriptor& in,
                         std::string_view refused) {
  if (!refused.empty())
    return WithCulprit(
        ErrorCode::kMismatch,
        fmt::format("rank {} refused a call of its program ({}) and closed, but rank {} waits for it in #{} {}", who,
                    refused, waits, in.sequence, in.ToString()),
        who);
  return WithCulprit(
      ErrorCode::kClosed,
      fmt::format("rank {} closed after #{} {}, but rank {} waits for it in #{} {}", who, last.sequence,
                  last.sequence == 0 ? "(no operation)" : last.ToString(), waits, in.sequence, in.ToString()),
      who);
}

// Returns the error as rank `self` reports it. `operation`: the operation that failed because of the error; null: none
// was running. `blocked`: the operation's blocked steps.
Error WithOperation(const Error& error, Rank self, const OperationDescriptor* operation,
                    const std::vector<BlockedStep>& blocked);

}  // namespace rondo
