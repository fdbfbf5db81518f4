// One operation as the flight recorder keeps it: the request, its progress, and its times. All types are plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "base/dtype.h"
#include "base/ids.h"
#include "base/reduce_op.h"
#include "collectives/point_to_point/message.h"
#include "collectives/schedule/step.h"

namespace rondo {

enum class RecordKind : std::uint8_t { kCollective, kSend, kReceive };

enum class RecordState : std::uint8_t {
  kScheduled,  // issued, but waits: a collective for earlier operations, a message for its peer
  kStarted,    // moves bytes, or waits for them
  kCompleted,
  kFailed,
};
// The state as c10d names it: "scheduled", "started", "completed"; or "failed", which c10d does not have.
std::string_view Name(RecordState state);

// The properties of a collective that are known when it is issued.
struct CollectiveCall {
  Sequence sequence = 0;
  Collective collective = Collective::kBarrier;
  Algorithm algorithm = Algorithm::kDissemination;
  ReduceOp op = ReduceOp::kSum;
  DataType type = DataType::kUint8;  // type of the user's elements
  bool widened = false;              // partial results are kept and sent in a wider type
  bool varying = false;
  bool in_place = false;
  Rank root = 0;
  std::uint64_t count = 0;  // as in OperationDescriptor
  std::uint64_t input_elements = 0;
  std::uint64_t output_elements = 0;
  Duration timeout{};
};

// The properties of a send or receive that are known when it is issued.
struct MessageCall {
  bool sends = false;
  Rank peer = kAnyRank;
  Tag tag = kAnyTag;
  DataType type = DataType::kUint8;
  std::uint64_t count = 0;  // number of elements; for a receive the capacity of its buffer
  Duration timeout{};
};

// How far a step or a message had progressed when it failed.
struct RecordedPlace {
  std::uint32_t step = 0;  // for collectives
  std::uint64_t bytes_done = 0;
  std::uint64_t bytes_due = 0;
};

struct Record {
  RecordKind kind = RecordKind::kCollective;
  RecordState state = RecordState::kScheduled;
  std::uint64_t number = 0;  // for a collective its sequence number; messages are numbered separately, from 1
  Collective collective = Collective::kBarrier;
  Algorithm algorithm = Algorithm::kDissemination;
  ReduceOp op = ReduceOp::kSum;
  DataType type = DataType::kUint8;
  bool widened = false;
  bool varying = false;
  bool in_place = false;
  // The operation ran at once, in a few microseconds at most, and the clock was not read. Its three times are equal:
  // the time of a coarse clock at its end, which lags behind by up to Clock::kCoarse.
  bool coarse = false;
  Rank peer = kNoRank;  // root of a collective; peer of a message, once it is known
  Tag tag = kAnyTag;
  std::uint64_t count = 0;
  std::uint64_t input_elements = 0;  // input_elements and output_elements are set only if `varying`
  std::uint64_t output_elements = 0;
  std::uint32_t timeout_ms = 0;
  TimePoint created{};  // from a coarse clock if the timeout is long, even if not `coarse`
  TimePoint started{};  // TimePoint{}: not started
  TimePoint ended{};    // TimePoint{}: not ended
  std::optional<RecordedPlace> place;
};

}  // namespace rondo
