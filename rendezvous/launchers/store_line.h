// The line that rank 0 publishes in a launcher's key-value space: the address of its store, or why there is none. The
// line is a single word, which every launcher can transmit.
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
  std::vector<HostPort> addresses;  // addresses of one server, best first
  std::string failure;              // rank 0's error, if there are no addresses
};

// Gives at most `max_bytes` bytes. Addresses that do not fit are left out; a failure that does not fit is cut.
std::string Encode(const StoreLine& line, std::size_t max_bytes);
// The result has addresses or a failure. kProtocol: the text does not have this format.
Result<StoreLine> DecodeStoreLine(std::string_view text);

}  // namespace rondo
