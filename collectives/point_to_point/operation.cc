#include "collectives/point_to_point/operation.h"

#include <fmt/core.h>

namespace rondo {

std::string DescribeTag(Tag tag) { return tag == kAnyTag ? "any tag" : fmt::format("tag {}", tag); }

std::string Describe(const MessageOperation& operation) {
  const std::uint64_t count = operation.bytes / SizeOf(operation.type);
  if (operation.sends)
    return fmt::format("send of {} x {} to rank {} with {}", Name(operation.type), count, operation.peer,
                       DescribeTag(operation.tag));
  return fmt::format("receive of up to {} x {} from {} with {}", Name(operation.type), count,
                     operation.peer == kAnyRank ? "any rank" : fmt::format("rank {}", operation.peer),
                     DescribeTag(operation.tag));
}

void Completions::Finish(MessageOperation& operation, std::optional<Error> error) {
  if (operation.stage_link.linked()) operation.stage_link.Unlink();
  if (operation.active_link.linked()) operation.active_link.Unlink();
  operation.error = std::move(error);
  ++finished_;
  if (observer_ != nullptr) observer_->OnEnded(operation);
  // A waiter on another thread may destroy the operation as soon as it sees the flag.
  const std::shared_ptr<MessageOperation> keep = std::move(operation.keep_alive);
  operation.final.store(true);
}

}  // namespace rondo
