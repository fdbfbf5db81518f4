#include "collectives/communicator/operation_queue.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <span>

namespace rondo {

OperationQueue::OperationQueue(Rank rank, int world_size, std::uint32_t max_pending)
    : rank_(rank),
      world_size_(world_size),
      max_pending_(max_pending),
      slots_(std::bit_ceil(std::size_t{max_pending})),
      mask_(slots_.size() - 1) {}

Result<OperationQueue::Operation*> OperationQueue::Reserve(const OperationRequest& request) {
  const Sequence sequence = issued_.load(std::memory_order_relaxed) + 1;
  const Sequence last = request.compares ? sequence + 1 : sequence;
  if (last - completed_.load(std::memory_order_acquire) > max_pending_)
    return Fail(ErrorCode::kResource, "{} operations are pending; the limit (max_pending_operations) is {}",
                max_pending_, max_pending_);
  Operation& operation = At(sequence);
  operation.request = request;
  operation.request.descriptor.sequence = sequence;
  operation.request.counts = request.descriptor.varying ? KeepCounts(request, sequence) : nullptr;
  operation.request.input_counts = operation.request.output_counts = {};
  return &operation;
}

template <typename Kept>
Kept& OperationQueue::Unused(std::deque<Kept>& kept) const {
  const Sequence completed = completed_.load(std::memory_order_acquire);
  const auto unused =
      std::find_if(kept.begin(), kept.end(), [&](const Kept& one) { return one.sequence <= completed; });
  return unused != kept.end() ? *unused : kept.emplace_back();
}

const BlockCounts* OperationQueue::KeepCounts(const OperationRequest& request, Sequence sequence) {
  KeptCounts& kept = Unused(counts_);
  kept.sequence = sequence;
  const auto sum_up = [](std::span<const std::uint64_t> counts, std::vector<std::uint64_t>& sums) {
    sums.assign(counts.size() + 1, 0);
    std::partial_sum(counts.begin(), counts.end(), sums.begin() + 1);
    return std::span<const std::uint64_t>(sums);
  };
  kept.counts = {};
  if (request.descriptor.collective == Collective::kAllToAll) {
    kept.counts.sent = sum_up(request.input_counts, kept.sent);
    kept.counts.received = sum_up(request.output_counts, kept.received);
  } else if (!request.input_counts.empty() || !request.output_counts.empty()) {
    kept.counts.begins =
        sum_up(request.input_counts.empty() ? request.output_counts : request.input_counts, kept.begins);
  } else {  // this rank is not the root, so it counts the other blocks as empty
    const auto own = static_cast<std::size_t>(rank_);
    kept.begins.assign(static_cast<std::size_t>(world_size_) + 1, 0);
    std::fill(kept.begins.begin() + static_cast<std::ptrdiff_t>(own) + 1, kept.begins.end(),
              std::max(request.input_elements, request.output_elements));
    kept.counts.begins = kept.begins;
  }
  return &kept.counts;
}

ResultComparison& OperationQueue::Compare(Operation& operation) {
  ResultComparison& comparison = Unused(comparisons_);
  comparison.sequence = operation.request.descriptor.sequence + 1;
  comparison.own = 0;
  comparison.all.resize(static_cast<std::size_t>(world_size_));
  operation.request.comparison = &comparison;
  return comparison;
}

void OperationQueue::ExtendDeadlines(TimePoint begin, TimePoint end) {
  const Sequence last = issued_.load(std::memory_order_acquire);
  for (Sequence sequence = current(); sequence <= last; ++sequence) {
    Operation& operation = At(sequence);
    operation.deadline = Later(operation.deadline, end - std::clamp(operation.issued, begin, end));
  }
}

}  // namespace rondo
