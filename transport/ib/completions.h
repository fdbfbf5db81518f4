// What a work completion that failed means, in words: a pure table.
#pragma once

#include <infiniband/verbs.h>

#include <string_view>

namespace rondo::ib {

struct CompletionWords {
  std::string_view name;    // as the specification says it: "transport retry counter exceeded"
  std::string_view remedy;  // what it comes from most often, and what to do
  bool peer;                // the other end, or the way to it, is what to look at; else this machine
};

// REQUIRES: not IBV_WC_SUCCESS.
CompletionWords Words(ibv_wc_status status);

}  // namespace rondo::ib
