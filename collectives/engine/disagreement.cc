#include "collectives/engine/disagreement.h"

#include <fmt/core.h>

#include <string>
#include <utility>

namespace rondo {
namespace {

Error Mismatch(Rank self, const OperationDescriptor& ours, Rank peer, std::string message) {
  ErrorDetails details;
  details.code = ErrorCode::kMismatch;
  details.culprit = peer;
  details.rank = self;
  details.collective = ours.ToString();
  details.sequence = ours.sequence;
  details.message = std::move(message);
  return Error(std::move(details));
}

}  // namespace

Error Disagreement(Rank self, const OperationDescriptor& ours, Rank peer, const OperationDescriptor& theirs) {
  return Mismatch(self, ours, peer,
                  fmt::format("the ranks disagree: rank {} is in operation #{} {}, rank {} in operation #{} {}", self,
                              ours.sequence, ours.ToString(), peer, theirs.sequence, theirs.ToString()));
}

Error AnotherLength(Rank self, const OperationDescriptor& ours, Rank peer, const FrameHeader& header,
                    std::uint64_t expected_bytes) {
  return Mismatch(
      self, ours, peer,
      fmt::format("the ranks disagree about counts: in operation #{} {}, rank {} sends {} bytes in transfer {}, but "
                  "rank {} expects {} bytes",
                  ours.sequence, ours.ToString(), peer, header.transfer_bytes, header.transfer, self, expected_bytes));
}

}  // namespace rondo
