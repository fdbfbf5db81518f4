// rendezvous/launchers/store_line: the value in a launcher's key-value space that contains the address of rank 0's
// store.
#include <algorithm>

#include "rendezvous/launchers/pmi_reply.h"
#include "rendezvous/launchers/store_line.h"
#include "tests/fuzz/harness.h"

namespace rondo::fuzz::store_line_fuzz {
bool Same(const StoreLine& a, const StoreLine& b) {
  const auto same = [](const HostPort& x, const HostPort& y) { return x.host == y.host && x.port == y.port; };
  return a.failure == b.failure &&
         std::equal(a.addresses.begin(), a.addresses.end(), b.addresses.begin(), b.addresses.end(), same);
}

// A failure with any text can be encoded as one word of printable ASCII, cut if there is no room.
void CheckFailure(std::string_view words) {
  if (words.empty()) return;
  const std::string line = Encode({.addresses = {}, .failure = std::string(words)}, kMaxPmiValueBytes);
  RONDO_HOLDS(line.size() <= kMaxPmiValueBytes);
  RONDO_HOLDS(std::all_of(line.begin(), line.end(), [](char c) { return c > ' ' && c <= '~' && c != ';'; }), "{}",
              line);
  const auto decoded = DecodeStoreLine(line);
  RONDO_HOLDS(decoded && decoded->addresses.empty() && !decoded->failure.empty());
  RONDO_HOLDS(words.starts_with(decoded->failure), "'{}' was decoded as '{}'", words, decoded->failure);
}

Corpus HarnessCorpus() {
  return {.seeds = {"at:10.0.0.1:40211,[fe80::1%eth0]:40211", "at:127.0.0.1:1", "failed:no%20address%20is%20left",
                    "failed:", "failed:%4g%", "at:", "at:,"},
          .words = {"at:", "failed:", "%0a", "%zz", "]:", ","}};
}

void CheckInput(std::string_view input) {
  const Allocations allocations;
  CheckFailure(input);
  const Result<StoreLine> line = DecodeStoreLine(input);
  CheckError(line);
  allocations.CheckLargest(8192 + 64 * input.size());
  if (!line) return;
  // A reader either gets addresses to connect to, or the reason for the failure.
  RONDO_HOLDS(line->failure.empty() != line->addresses.empty());
  const auto again = DecodeStoreLine(Encode(*line, 8 * input.size() + 64));
  RONDO_HOLDS(again && Same(*again, *line));
}

}  // namespace rondo::fuzz::store_line_fuzz
