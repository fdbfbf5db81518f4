// What rank 0 tells the others through a launcher's key-value space, in one word that any of them carries: where its
// store is, or why there is none.
//
//   at:10.0.0.1:40211,[fe80::1%eth0]:40211      failed:no%20address%20is%20left
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/net/resolve.h"
#include "base/result.h"

namespace rondo {

struct StoreLine {
  std::vector<HostPort> addresses;  // of one server, best first
  std::string failure;              // of rank 0, where there are none
};

// At most `max_bytes` come out: addresses that have no room are left out, a failure is cut.
std::string Encode(const StoreLine& line, std::size_t max_bytes);
// kProtocol: it is no such line. Else it has addresses or a failure, never neither.
Result<StoreLine> DecodeStoreLine(std::string_view text);

}  // namespace rondo
