// What a process proves itself by, to peers and to stores: made once, and handed on.
//
// Thread rule: values.
#pragma once

#include <memory>

#include "base/access.h"
#include "base/tls.h"

namespace rondo {

struct Identity {
  std::shared_ptr<const JobToken> token = nullptr;  // null: this process has none
  std::shared_ptr<const TlsContext> tls = nullptr;  // null: in the clear
};

}  // namespace rondo
