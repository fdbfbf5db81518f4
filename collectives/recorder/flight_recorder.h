// The last operations of one rank on one communicator, kept while they run: what they were, in what state they are, and
// when that came about.
//
//   recorder.Issued(call, now);  recorder.Started(sequence, algorithm, now, false);  recorder.Completed(sequence, now);
//   for (const Record& record : recorder.Read()) ...       // any thread, at any time
//
// Collectives and messages have a ring each. A collective's place follows from its sequence; of messages, which end in
// any order, what is under way is never overwritten, and what has ended is in the order in which it did.
//
// To record an operation is a few stores into memory that is already there: no lock, no allocation, no system call, and
// no clock but the caller's. Of what runs at once, one cache line is written. Only the memory for messages is taken
// with the first of them, and the text of a message's error is kept under a lock.
//
// Thread rule: per method. The issuer and the owner are those of CommunicatorCore: the issuer's stores are seen by the
// owner when the operation is published to it, the owner's by the issuer when the operation has completed.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/result.h"
#include "collectives/recorder/record.h"
#include "collectives/recorder/slot.h"

namespace rondo {

class FlightRecorder {
 public:
  static constexpr std::uint32_t kMostRecords = 1 << 20;
  static constexpr std::uint32_t kNotRecorded = std::numeric_limits<std::uint32_t>::max();

  // Keeps `records` collectives and as many messages, rounded up to a power of two. REQUIRES: records > 0.
  // kInvalidArgument: more than kMostRecords. kOutOfMemory names the bytes.
  static Result<std::unique_ptr<FlightRecorder>> Create(std::uint32_t records);
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  std::size_t capacity() const { return mask_ + 1; }

  // ---- collectives ----

  // Whether a collective may be recorded as soon as it is issued: else its place is still that of one under way, and
  // the owner records it when it starts.
  bool HasRoomFor(Sequence sequence, Sequence completed) const { return sequence - completed <= capacity(); }
  // Issuer, or owner. REQUIRES: HasRoomFor.
  void Issued(const CollectiveCall& call, TimePoint now) { Write(call, RecordState::kScheduled, now, TimePoint{}, 0); }
  // Issuer that is the owner: one that was issued, started and completed in one go. `now` may be coarse.
  void RanAtOnce(const CollectiveCall& call, TimePoint now) {
    Write(call, RecordState::kCompleted, now, now, kCoarseFlag);
  }

  // The owner's, of one that is under way.
  bool Has(Sequence sequence) const { return SlotOf(sequence).Get(kNumber) == sequence; }
  // `coarse`: nobody has looked at the clock for a while. REQUIRES: Has(sequence).
  void Started(Sequence sequence, Algorithm algorithm, TimePoint now, bool coarse) {
    RecordSlot& slot = SlotOf(sequence);
    const std::uint64_t how = slot.Get(kHow) & ~(kStateMask | kAlgorithmMask);
    slot.Open();
    slot.Set(kStarted, std::max(Number(now), slot.Get(kCreated)));
    slot.Set(kHow, how | Byte(RecordState::kStarted) | Byte(algorithm) << 8 | (coarse ? kCoarseFlag : 0));
    slot.Close();
  }
  // Somebody has looked by now, and it had just started.
  void Measured(Sequence sequence, TimePoint now) {
    RecordSlot& slot = SlotOf(sequence);
    slot.Open();
    slot.Set(kStarted, std::max(Number(now), slot.Get(kCreated)));
    slot.Set(kHow, slot.Get(kHow) & ~kCoarseFlag);
    slot.Close();
  }
  void Completed(Sequence sequence, TimePoint now) { End(SlotOf(sequence), RecordState::kCompleted, now); }
  // Does nothing where it was not recorded.
  void Failed(Sequence sequence, TimePoint now, const std::optional<RecordedPlace>& place);

  // ---- messages ----

  // Any thread, one at a time (under the lock by which messages are submitted). Gives the place, for the methods below;
  // kNotRecorded where more are under way than there are places.
  std::uint32_t MessageIssued(const MessageCall& call, TimePoint now);
  // The owner's; of kNotRecorded they do nothing.
  void MessageStarted(std::uint32_t place, Rank peer, Tag tag, TimePoint now);
  // A null error: success.
  void MessageEnded(std::uint32_t place, Rank peer, Tag tag, std::uint64_t bytes_done, std::uint64_t bytes_due,
                    const Error* error, TimePoint now);

  // ---- any thread ----

  // In the order in which they were issued. What is written at this moment may be left out.
  std::vector<Record> Read() const;
  // Of messages that failed, by number, why; the latest few.
  std::vector<std::pair<std::uint64_t, std::string>> MessageErrors() const;

 private:
  // The words of a slot. Those up to kHow are in its first cache line.
  enum Word : std::size_t {
    kNumber,   // 0: nothing
    kCreated,  // nanoseconds of the monotonic clock, this one and the next two
    kStarted,
    kEnded,
    kCount,
    kWhat,  // from the lowest byte: kind, collective, operation, type; then 32 bits of root or peer
    kHow,   // state, algorithm, flags, nothing; then 32 bits of timeout_ms
    kInputElements,
    kOutputElements,
    kBytesDone,
    kBytesDue,
    kStepAndTag,
  };
  static constexpr std::uint64_t kStateMask = 0xFF, kAlgorithmMask = 0xFF00;
  static constexpr std::uint64_t kVaryingFlag = 1 << 16, kWideFlag = 1 << 17, kInPlaceFlag = 1 << 18,
                                 kCoarseFlag = 1 << 19, kPlaceFlag = 1 << 20;
  static constexpr std::size_t kMostErrors = 64;

  // Made with the first message.
  struct MessageRing {
    std::unique_ptr<RecordSlot[]> slots;
    std::unique_ptr<std::uint32_t[]> free;   // a queue of places; the one that has been free for longest comes next
    std::uint64_t taken = 0;                 // from the queue, in all: the issuer's
    std::atomic<std::uint64_t> returned{0};  // to the queue, in all: the owner's; publishes its entries to the issuer
  };

  explicit FlightRecorder(std::size_t capacity) : mask_(capacity - 1) {}

  template <typename Enum>
  static constexpr std::uint64_t Byte(Enum value) {
    return static_cast<std::uint8_t>(value);
  }
  static constexpr std::uint64_t Upper(std::int32_t value) {
    return std::uint64_t{static_cast<std::uint32_t>(value)} << 32;
  }
  static std::uint64_t Number(TimePoint time) { return static_cast<std::uint64_t>(time.time_since_epoch().count()); }
  static std::uint64_t Milliseconds(Duration timeout) {
    constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
    return static_cast<std::uint64_t>(std::clamp<std::int64_t>(timeout.count() / 1'000'000, 0, kMost));
  }

  RecordSlot& SlotOf(Sequence sequence) const { return slots_[(sequence - 1) & mask_]; }

  void Write(const CollectiveCall& call, RecordState state, TimePoint created, TimePoint ended, std::uint64_t flags) {
    RecordSlot& slot = SlotOf(call.sequence);
    slot.Open();
    slot.Set(kNumber, call.sequence);
    slot.Set(kCreated, Number(created));
    slot.Set(kStarted, Number(ended));
    slot.Set(kEnded, Number(ended));
    slot.Set(kCount, call.count);
    slot.Set(kWhat, Byte(RecordKind::kCollective) | Byte(call.collective) << 8 | Byte(call.op) << 16 |
                        Byte(call.type) << 24 | Upper(call.root));
    slot.Set(kHow, Byte(state) | Byte(call.algorithm) << 8 | flags | (call.varying ? kVaryingFlag : 0) |
                       (call.wide_partials ? kWideFlag : 0) | (call.in_place ? kInPlaceFlag : 0) |
                       Milliseconds(call.timeout) << 32);
    if (call.varying) [[unlikely]] {  // else they follow from count and world
      slot.Set(kInputElements, call.input_elements);
      slot.Set(kOutputElements, call.output_elements);
    }
    slot.Close();
  }

  void End(RecordSlot& slot, RecordState state, TimePoint now) {
    slot.Open();
    slot.Set(kEnded, std::max({Number(now), slot.Get(kStarted), slot.Get(kCreated)}));
    slot.Set(kHow, (slot.Get(kHow) & ~kStateMask) | Byte(state));
    slot.Close();
  }

  MessageRing* RingForMessages();
  static Record Decode(const RecordSlot::Words& words);
  static void ReadAll(const RecordSlot* slots, std::size_t count, std::vector<Record>& records);

  const std::size_t mask_;
  std::unique_ptr<RecordSlot[]> slots_;  // of collectives, by sequence
  std::uint64_t messages_issued_ = 0;    // the issuer's
  std::unique_ptr<MessageRing> message_ring_;
  std::atomic<MessageRing*> messages_{nullptr};  // the same, for owner and readers
  mutable std::mutex errors_mutex_;              // a leaf; guards errors_
  std::deque<std::pair<std::uint64_t, std::string>> errors_;
};

}  // namespace rondo
