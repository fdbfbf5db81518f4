// The flight recorder keeps the latest operations of one rank on one communicator: what each operation is, its state,
// and the times of its changes. It is up to date while operations run.
//
//   recorder.Issued(call, now);  recorder.Started(sequence, algorithm, now, false);  recorder.Completed(sequence, now);
//   for (const Record& record : recorder.Read()) ...       // any thread, at any time
//
// Collectives and messages have a ring buffer each. The slot of a collective follows from its sequence number. Messages
// end in any order: a pending message is never overwritten, and ended messages are overwritten in the order in which
// they ended.
//
// Recording an operation is a few stores into existing memory: no lock, no allocation, no system call, and no read of a
// clock, because the caller passes the time. An operation that completes at once writes one cache line. There are two
// exceptions: the first message allocates the memory for messages, and the text of a message's error is stored under a
// lock.
//
// Thread rule: stated for each method. Issuer and owner are those of CommunicatorCore. The owner sees the issuer's
// stores when the operation is published to it; the issuer sees the owner's when the operation has completed.
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
  static constexpr std::uint32_t kMaxRecords = 1 << 20;
  static constexpr std::uint32_t kNotRecorded = std::numeric_limits<std::uint32_t>::max();

  // Keeps the latest `records` collectives and as many messages, rounded up to a power of two. REQUIRES: records > 0.
  // kInvalidArgument: more than kMaxRecords. kOutOfMemory names the number of bytes.
  static Result<std::unique_ptr<FlightRecorder>> Create(std::uint32_t records);
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  std::size_t capacity() const { return mask_ + 1; }

  // ---- collectives ----

  // Whether a collective may be recorded when it is issued. If not, its slot is still used by a pending collective, and
  // the owner must record the new collective when it starts.
  bool HasRoomFor(Sequence sequence, Sequence completed) const { return sequence - completed <= capacity(); }
  // Issuer or owner. REQUIRES: HasRoomFor.
  void Issued(const CollectiveCall& call, TimePoint now) { Write(call, RecordState::kScheduled, now, TimePoint{}, 0); }
  // Issuer that is also the owner: records a collective that was issued, started and completed in one call. `now` may
  // be from a coarse clock.
  void RanAtOnce(const CollectiveCall& call, TimePoint now) {
    Write(call, RecordState::kCompleted, now, now, kCoarseFlag);
  }

  // Whether a pending collective has a record. Owner only.
  bool Has(Sequence sequence) const { return SlotOf(sequence).Get(kNumber) == sequence; }
  // `coarse`: `now` may be older than the start, because the clock was not read. REQUIRES: Has(sequence).
  void Started(Sequence sequence, Algorithm algorithm, TimePoint now, bool coarse) {
    RecordSlot& slot = SlotOf(sequence);
    const std::uint64_t how = slot.Get(kHow) & ~(kStateMask | kAlgorithmMask);
    slot.Open();
    slot.Set(kStarted, std::max(Number(now), slot.Get(kCreated)));
    slot.Set(kHow, how | Byte(RecordState::kStarted) | Byte(algorithm) << 8 | (coarse ? kCoarseFlag : 0));
    slot.Close();
  }
  // Corrects the start time of a collective, which had just started when the clock was read.
  void Measured(Sequence sequence, TimePoint now) {
    RecordSlot& slot = SlotOf(sequence);
    slot.Open();
    slot.Set(kStarted, std::max(Number(now), slot.Get(kCreated)));
    slot.Set(kHow, slot.Get(kHow) & ~kCoarseFlag);
    slot.Close();
  }
  void Completed(Sequence sequence, TimePoint now) { End(SlotOf(sequence), RecordState::kCompleted, now); }
  // Does nothing if the collective was not recorded.
  void Failed(Sequence sequence, TimePoint now, const std::optional<RecordedPlace>& place);

  // ---- messages ----

  // Any thread, one at a time (under the lock with which messages are submitted). Returns the slot, which the methods
  // below need. kNotRecorded: all slots are used by pending messages.
  std::uint32_t MessageIssued(const MessageCall& call, TimePoint now);
  // Owner only. MessageStarted and MessageEnded do nothing for kNotRecorded.
  void MessageStarted(std::uint32_t place, Rank peer, Tag tag, TimePoint now);
  // `error`: null for success.
  void MessageEnded(std::uint32_t place, Rank peer, Tag tag, std::uint64_t bytes_done, std::uint64_t bytes_due,
                    const Error* error, TimePoint now);

  // ---- any thread ----

  // All records, in the order of issue. A record that is being written at this moment may be missing.
  std::vector<Record> Read() const;
  // The errors of the latest failed messages, each with the number of its message.
  std::vector<std::pair<std::uint64_t, std::string>> MessageErrors() const;

 private:
  // The words of a slot. Those up to kHow are in the slot's first cache line.
  enum Word : std::size_t {
    kNumber,   // 0: empty
    kCreated,  // in nanoseconds of the monotonic clock, like the next two
    kStarted,
    kEnded,
    kCount,
    kWhat,  // from the lowest byte: kind, collective, operation, type; then root or peer (32 bits)
    kHow,   // from the lowest byte: state, algorithm, flags, unused; then timeout_ms (32 bits)
    kInputElements,
    kOutputElements,
    kBytesDone,
    kBytesDue,
    kStepAndTag,
  };
  static constexpr std::uint64_t kStateMask = 0xFF, kAlgorithmMask = 0xFF00;
  static constexpr std::uint64_t kVaryingFlag = 1 << 16, kWidenedFlag = 1 << 17, kInPlaceFlag = 1 << 18,
                                 kCoarseFlag = 1 << 19, kPlaceFlag = 1 << 20;
  static constexpr std::size_t kMaxErrors = 64;

  // Made when the first message is recorded.
  struct MessageRing {
    std::unique_ptr<RecordSlot[]> slots;
    std::unique_ptr<std::uint32_t[]> free;  // a queue of free slots: the one that has been free for longest is next
    std::uint64_t taken = 0;                // number of slots ever taken from the queue; used by the issuer
    // number of slots that the owner has returned to the queue; storing it publishes the returned slots
    std::atomic<std::uint64_t> returned{0};
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
    constexpr std::int64_t kMax = std::numeric_limits<std::uint32_t>::max();
    return static_cast<std::uint64_t>(std::clamp<std::int64_t>(timeout.count() / 1'000'000, 0, kMax));
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
                       (call.widened ? kWidenedFlag : 0) | (call.in_place ? kInPlaceFlag : 0) |
                       Milliseconds(call.timeout) << 32);
    // If the counts do not vary, the numbers of elements follow from the count and the world size.
    if (call.varying) [[unlikely]] {
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
  std::unique_ptr<RecordSlot[]> slots_;  // the slots of collectives, by sequence number
  std::uint64_t messages_issued_ = 0;    // used by the issuer
  std::unique_ptr<MessageRing> message_ring_;
  std::atomic<MessageRing*> messages_{nullptr};  // message_ring_.get(), for owner and readers
  mutable std::mutex errors_mutex_;              // guards errors_; no other lock is taken while it is held
  std::deque<std::pair<std::uint64_t, std::string>> errors_;
};

}  // namespace rondo
