// The meaning of a failed work completion: a pure table.
#pragma once

#include <infiniband/verbs.h>

#include <string_view>

namespace rondo::ib {

struct CompletionWords {
  std::string_view name;    // the specification's: "transport retry counter exceeded"
  std::string_view remedy;  // its most frequent cause, and what to do
  bool peer;                // true: look at the other end, or the way to it; false: at this machine
};

// REQUIRES: not IBV_WC_SUCCESS.
CompletionWords Words(ibv_wc_status status);

}  // namespace rondo::ib
