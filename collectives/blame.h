// Errors that say which rank is to blame.
#pragma once

#include <fmt/core.h>

#include <string>
#include <utility>

#include "base/error.h"
#include "base/ids.h"
#include "collectives/engine/frame.h"

namespace rondo {

inline Error WithCulprit(ErrorCode code, std::string message, Rank culprit) {
  return Error(code, std::move(message)).With([&](ErrorDetails& d) { d.culprit = culprit; });
}

inline Error ClosedEarly(Rank who, const OperationDescriptor& last, Rank waits, const OperationDescriptor& in) {
  return WithCulprit(
      ErrorCode::kClosed,
      fmt::format("rank {} closed after #{} {}, but rank {} waits for it in #{} {}", who, last.sequence,
                  last.sequence == 0 ? "(no operation)" : last.ToString(), waits, in.sequence, in.ToString()),
      who);
}

}  // namespace rondo
