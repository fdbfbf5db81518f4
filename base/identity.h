// The credentials of a process, for peers and for stores. They are made once and then handed on.
//
// Thread rule: plain values, each for one thread at a time.
#pragma once

#include <memory>

#include "base/access.h"
#include "base/tls.h"

namespace rondo {

struct Identity {
  std::shared_ptr<const JobToken> token = nullptr;  // null: this process has none
  std::shared_ptr<const TlsContext> tls = nullptr;  // null: connections are not encrypted
};

}  // namespace rondo
