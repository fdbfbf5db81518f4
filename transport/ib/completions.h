// The meaning of each status of a failed work completion, as a pure table.
#pragma once

#include <infiniband/verbs.h>

#include <string_view>

namespace rondo::ib {

struct CompletionWords {
  std::string_view name;    // the name in the specification, such as "transport retry counter exceeded"
  std::string_view remedy;  // the most frequent cause, and what to do
  bool peer;                // true: check the other end or the network path; false: check this machine
};

// REQUIRES: `status` is not IBV_WC_SUCCESS.
CompletionWords Words(ibv_wc_status status);

}  // namespace rondo::ib
