#include "collectives/communicator/peer_errors.h"

#include <algorithm>

namespace rondo {

Error WithOperation(const Error& error, Rank self, const OperationDescriptor* operation,
                    const std::vector<BlockedStep>& blocked) {
  return error.With([&](ErrorDetails& d) {
    d.rank = self;
    if (operation == nullptr) return;
    if (d.collective.empty()) d.collective = operation->ToString();
    if (!d.sequence) d.sequence = operation->sequence;
    if (d.sequence != operation->sequence) return;  // an error of another operation: its step is not known here
    auto at = std::find_if(blocked.begin(), blocked.end(), [&](const BlockedStep& s) { return s.peer == d.culprit; });
    if (at == blocked.end()) at = blocked.begin();
    if (at == blocked.end() || d.step) return;
    d.step = at->step;
    d.bytes_done = at->bytes_done;
    d.bytes_due = at->bytes_due;
  });
}

}  // namespace rondo
