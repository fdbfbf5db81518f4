// The credentials that a process uses towards peers and stores. They are made once and then passed to the code that
// needs them.
//
// Thread rule: plain values, each for one thread at a time.
#pragma once

#include <memory>

#include "base/access.h"
#include "base/tls.h"

namespace rondo {

struct Identity {
  std::shared_ptr<const JobToken> token = nullptr;  // null: this process has no token
  std::shared_ptr<const TlsContext> tls = nullptr;  // null: connections are not encrypted
};

}  // namespace rondo
