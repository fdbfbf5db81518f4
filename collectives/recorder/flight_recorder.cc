#include "collectives/recorder/flight_recorder.h"

#include <array>
#include <bit>
#include <new>

#include "base/out_of_memory.h"

namespace rondo {

std::string_view Name(RecordState state) {
  constexpr std::array<std::string_view, 4> kNames{"scheduled", "started", "completed", "failed"};
  const auto number = static_cast<std::size_t>(state);
  return number < kNames.size() ? kNames[number] : "unknown";
}

Result<std::unique_ptr<FlightRecorder>> FlightRecorder::Create(std::uint32_t records) {
  if (records > kMaxRecords)
    return Fail(ErrorCode::kInvalidArgument, "recorded_operations is {}; at most {} are allowed", records, kMaxRecords);
  const std::size_t capacity = std::bit_ceil(std::size_t{records});
  std::unique_ptr<FlightRecorder> recorder(new FlightRecorder(capacity));
  recorder->slots_.reset(new (std::nothrow) RecordSlot[capacity]);
  if (recorder->slots_ == nullptr)
    return Fail(ErrorCode::kOutOfMemory, "no memory for {} records (recorded_operations) of {} bytes each", capacity,
                sizeof(RecordSlot));
  return recorder;
}

void FlightRecorder::Failed(Sequence sequence, TimePoint now, const std::optional<RecordedPlace>& place) {
  if (!Has(sequence)) return;
  RecordSlot& slot = SlotOf(sequence);
  End(slot, RecordState::kFailed, now);
  if (!place) return;
  slot.Open();
  slot.Set(kBytesDone, place->bytes_done);
  slot.Set(kBytesDue, place->bytes_due);
  slot.Set(kStepAndTag, place->step);
  slot.Set(kHow, slot.Get(kHow) | kPlaceFlag);
  slot.Close();
}

// ---- messages ----

FlightRecorder::MessageRing* FlightRecorder::RingForMessages() {
  if (message_ring_ != nullptr) return message_ring_.get();
  std::unique_ptr<MessageRing> ring(new (std::nothrow) MessageRing);
  if (ring == nullptr) return nullptr;
  ring->slots.reset(new (std::nothrow) RecordSlot[capacity()]);
  ring->free.reset(new (std::nothrow) std::uint32_t[capacity()]);
  if (ring->slots == nullptr || ring->free == nullptr) return nullptr;
  for (std::size_t i = 0; i < capacity(); ++i) ring->free[i] = static_cast<std::uint32_t>(i);
  ring->returned.store(capacity(), std::memory_order_relaxed);
  message_ring_ = std::move(ring);
  messages_.store(message_ring_.get(), std::memory_order_release);
  return message_ring_.get();
}

std::uint32_t FlightRecorder::MessageIssued(const MessageCall& call, TimePoint now) {
  ++messages_issued_;
  MessageRing* const ring = RingForMessages();
  if (ring == nullptr || ring->taken == ring->returned.load(std::memory_order_acquire)) return kNotRecorded;
  const std::uint32_t place = ring->free[ring->taken++ & mask_];
  RecordSlot& slot = ring->slots[place];
  const RecordKind kind = call.sends ? RecordKind::kSend : RecordKind::kReceive;
  slot.Open();
  slot.Set(kNumber, messages_issued_);
  slot.Set(kCreated, Number(now));
  slot.Set(kStarted, 0);
  slot.Set(kEnded, 0);
  slot.Set(kCount, call.count);
  slot.Set(kWhat, Byte(kind) | Byte(call.type) << 24 | Upper(call.peer));
  slot.Set(kHow, Byte(RecordState::kScheduled) | Milliseconds(call.timeout) << 32);
  slot.Set(kStepAndTag, Upper(call.tag));
  slot.Close();
  return place;
}

void FlightRecorder::MessageStarted(std::uint32_t place, Rank peer, Tag tag, TimePoint now) {
  if (place == kNotRecorded) return;
  RecordSlot& slot = messages_.load(std::memory_order_acquire)->slots[place];
  slot.Open();
  slot.Set(kStarted, std::max(Number(now), slot.Get(kCreated)));
  slot.Set(kWhat, (slot.Get(kWhat) & 0xFFFFFFFF) | Upper(peer));
  slot.Set(kHow, (slot.Get(kHow) & ~kStateMask) | Byte(RecordState::kStarted));
  slot.Set(kStepAndTag, Upper(tag));
  slot.Close();
}

void FlightRecorder::MessageEnded(std::uint32_t place, Rank peer, Tag tag, std::uint64_t bytes_done,
                                  std::uint64_t bytes_due, const Error* error, TimePoint now) {
  if (place == kNotRecorded) return;
  MessageRing& ring = *messages_.load(std::memory_order_acquire);
  RecordSlot& slot = ring.slots[place];
  if (error != nullptr) {
    IfMemoryAllows([&] {
      const std::lock_guard lock(errors_mutex_);
      if (errors_.size() == kMaxErrors) errors_.pop_front();
      errors_.emplace_back(slot.Get(kNumber), error->ToString());
    });
  }
  slot.Open();
  const std::uint64_t ended = std::max({Number(now), slot.Get(kStarted), slot.Get(kCreated)});
  // A message that was copied at once, from memory to memory, has no separate start time.
  if (error == nullptr && slot.Get(kStarted) == 0) slot.Set(kStarted, ended);
  slot.Set(kEnded, ended);
  slot.Set(kWhat, (slot.Get(kWhat) & 0xFFFFFFFF) | Upper(peer));
  slot.Set(kBytesDone, bytes_done);
  slot.Set(kBytesDue, bytes_due);
  slot.Set(kStepAndTag, Upper(tag));
  const RecordState state = error == nullptr ? RecordState::kCompleted : RecordState::kFailed;
  slot.Set(kHow, (slot.Get(kHow) & ~kStateMask) | Byte(state) | kPlaceFlag);
  slot.Close();
  const std::uint64_t returned = ring.returned.load(std::memory_order_relaxed);
  ring.free[returned & mask_] = place;
  ring.returned.store(returned + 1, std::memory_order_release);
}

// ---- reading ----

Record FlightRecorder::Decode(const RecordSlot::Words& words) {
  const auto byte = [](std::uint64_t word, int number) { return static_cast<std::uint8_t>(word >> (8 * number)); };
  const auto upper = [](std::uint64_t word) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(word >> 32));
  };
  const auto time = [](std::uint64_t word) { return TimePoint(Duration(static_cast<std::int64_t>(word))); };
  const std::uint64_t what = words[kWhat], how = words[kHow];
  Record record;
  record.kind = static_cast<RecordKind>(byte(what, 0));
  record.collective = static_cast<Collective>(byte(what, 1));
  record.op = static_cast<ReduceOp>(byte(what, 2));
  record.type = static_cast<DataType>(byte(what, 3));
  record.peer = upper(what);
  record.state = static_cast<RecordState>(byte(how, 0));
  record.algorithm = static_cast<Algorithm>(byte(how, 1));
  record.varying = (how & kVaryingFlag) != 0;
  record.widened = (how & kWidenedFlag) != 0;
  record.in_place = (how & kInPlaceFlag) != 0;
  record.coarse = (how & kCoarseFlag) != 0;
  record.timeout_ms = static_cast<std::uint32_t>(how >> 32);
  record.number = words[kNumber];
  record.created = time(words[kCreated]);
  record.started = time(words[kStarted]);
  record.ended = time(words[kEnded]);
  record.count = words[kCount];
  if (record.varying) {
    record.input_elements = words[kInputElements];
    record.output_elements = words[kOutputElements];
  }
  if (record.kind != RecordKind::kCollective) record.tag = upper(words[kStepAndTag]);
  if ((how & kPlaceFlag) != 0)
    record.place = {static_cast<std::uint32_t>(words[kStepAndTag]), words[kBytesDone], words[kBytesDue]};
  return record;
}

void FlightRecorder::ReadAll(const RecordSlot* slots, std::size_t count, std::vector<Record>& records) {
  RecordSlot::Words words;
  for (std::size_t i = 0; i < count; ++i)
    if (slots[i].Read(words)) records.push_back(Decode(words));
}

std::vector<Record> FlightRecorder::Read() const {
  std::vector<Record> records;
  ReadAll(slots_.get(), capacity(), records);
  if (const MessageRing* const ring = messages_.load(std::memory_order_acquire); ring != nullptr)
    ReadAll(ring->slots.get(), capacity(), records);
  // With a coarse clock, many records have the same time. Records of one kind are then ordered by number.
  std::sort(records.begin(), records.end(), [](const Record& a, const Record& b) {
    if (a.created != b.created) return a.created < b.created;
    const bool a_message = a.kind != RecordKind::kCollective, b_message = b.kind != RecordKind::kCollective;
    return a_message != b_message ? b_message : a.number < b.number;
  });
  return records;
}

std::vector<std::pair<std::uint64_t, std::string>> FlightRecorder::MessageErrors() const {
  const std::lock_guard lock(errors_mutex_);
  return {errors_.begin(), errors_.end()};
}

}  // namespace rondo
