#include "collectives/intranode/rounds.h"

#include <fmt/core.h>

#include <utility>

namespace rondo {
namespace {

// A longer payload is not prefetched. Its cache lines would still be in flight when they are needed, and would delay
// other memory accesses.
constexpr std::uint64_t kMaxFetchedBytes = 1024;

// GCC turns a __builtin_prefetch for writing into one for reading, unless it compiles for processors that have the
// instruction PREFETCHW. Every x86-64 processor has this instruction or ignores it, so it is written in assembly.
void FetchToWrite(const void* line) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" ::"m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, /*rw=*/1);
#endif
}

}  // namespace

SlotRounds::SlotRounds(const IntranodeSegment& segment, const OperationDescriptor& operation)
    : segment_(segment),
      operation_(operation),
      rank_(segment.rank()),
      world_size_(segment.world_size()),
      known_(static_cast<std::size_t>(segment.world_size())) {}

Result<bool> SlotRounds::MayWrite() {
  for (Rank r = 0; r < world_size_; ++r) {
    std::uint64_t& known = known_[static_cast<std::size_t>(r)];
    if (r == rank_ || known + 1 >= round_) continue;
    const Slot& slot = segment_.SlotOf(r, round_ - 1);
    const std::uint64_t round = slot.round.load(std::memory_order_acquire);
    if (round + 1 < round_) return false;
    if (round + 1 == round_ && !AreEqual(slot.descriptor, last_descriptor_))
      return Fail(Disagreement(r, DecodeDescriptor(last_descriptor_), DecodeDescriptor(slot.descriptor)));
    known = round;
  }
  return true;
}

void SlotRounds::Publish() {
  Slot& own = segment_.SlotOf(rank_, round_);
  own.descriptor = last_descriptor_ = descriptor_;
  own.round.store(round_, std::memory_order_release);
  segment_.WakeWaiters();
  state_ = State::kPublished;
}

bool SlotRounds::WaitsFor(Rank peer) const {
  if (peer == rank_) return false;
  const auto published = [&](std::uint64_t round) {
    return segment_.SlotOf(peer, round).round.load(std::memory_order_seq_cst);
  };
  if (!is_published()) return is_awaiting_slot() && published(round_ - 1) + 1 < round_;
  return peer >= next_ && Needs(peer) && published(round_) != round_;
}

bool SlotRounds::HasNews() const {
  if (!is_published() || wanted_ == Wanted::kAllTogether) {
    for (Rank r = 0; r < world_size_; ++r)
      if (WaitsFor(r)) return false;
    return true;
  }
  // Slots are read in rank order, so only the first slot that is still needed matters.
  for (Rank r = next_; r < world_size_; ++r)
    if (Needs(r)) return !WaitsFor(r);
  return true;
}

void SlotRounds::FetchNextSlot(std::uint64_t payload_bytes) const {
  const Slot* const slot = &segment_.SlotOf(rank_, round_ + 1);
  FetchToWrite(slot);
  if (payload_bytes > kMaxFetchedBytes) return;
  for (std::uint64_t at = 0; at < payload_bytes; at += kLineBytes)
    FetchToWrite(reinterpret_cast<const std::byte*>(slot + 1) + at);
}

Error SlotRounds::Mismatch(Rank rank, const Slot& slot) const {
  const std::uint64_t round = slot.round.load(std::memory_order_acquire);
  if (round == round_) return Disagreement(rank, operation_, DecodeDescriptor(slot.descriptor));
  return Error(ErrorCode::kProtocol,
               fmt::format("rank {} is at round {} of the shared segment, expected round {}", rank, round, round_))
      .With([&](ErrorDetails& d) { d.culprit = rank; });
}

Error SlotRounds::Disagreement(Rank peer, const OperationDescriptor& own, const OperationDescriptor& theirs) const {
  ErrorDetails details;
  details.code = ErrorCode::kMismatch;
  details.culprit = peer;
  details.rank = rank_;
  details.collective = own.ToString();
  details.sequence = own.sequence;
  details.message = fmt::format("the ranks disagree: rank {} is in operation #{} {}, rank {} in operation #{} {}",
                                rank_, own.sequence, own.ToString(), peer, theirs.sequence, theirs.ToString());
  return Error(std::move(details));
}

}  // namespace rondo
