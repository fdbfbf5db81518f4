// One operation as the flight recorder keeps it: what was asked for, how far it has come, and when. Values.
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
  kScheduled,  // issued: waits for earlier operations; of messages, for the other rank
  kStarted,    // its bytes move, or are waited for
  kCompleted,
  kFailed,
};
// c10d's words "scheduled", "started" and "completed"; and "failed", which c10d has not.
std::string_view Name(RecordState state);

// What is known of a collective when it is issued.
struct CollectiveCall {
  Sequence sequence = 0;
  Collective collective = Collective::kBarrier;
  Algorithm algorithm = Algorithm::kDissemination;
  ReduceOp op = ReduceOp::kSum;
  DataType type = DataType::kUint8;  // of the user's elements
  bool wide_partials = false;        // they travel in float32
  bool varying = false;
  bool in_place = false;
  Rank root = 0;
  std::uint64_t count = 0;  // as in OperationDescriptor
  std::uint64_t input_elements = 0;
  std::uint64_t output_elements = 0;
  Duration timeout{};
};

// The same of a send or receive.
struct MessageCall {
  bool sends = false;
  Rank peer = kAnyRank;
  Tag tag = kAnyTag;
  DataType type = DataType::kUint8;
  std::uint64_t count = 0;  // elements; of a receive, the room
  Duration timeout{};
};

// How far a step, or a message, had come when it failed.
struct RecordedPlace {
  std::uint32_t step = 0;  // of a collective
  std::uint64_t bytes_done = 0;
  std::uint64_t bytes_due = 0;
};

struct Record {
  RecordKind kind = RecordKind::kCollective;
  RecordState state = RecordState::kScheduled;
  std::uint64_t number = 0;  // of a collective its sequence; messages are counted for themselves, from 1
  Collective collective = Collective::kBarrier;
  Algorithm algorithm = Algorithm::kDissemination;
  ReduceOp op = ReduceOp::kSum;
  DataType type = DataType::kUint8;
  bool wide_partials = false;
  bool varying = false;
  bool in_place = false;
  // It ran at once, in a few microseconds at most, and nobody looked at the clock: its three times are one, taken at
  // its end from a coarse clock, which is up to Clock::kCoarse behind.
  bool coarse = false;
  Rank peer = kNoRank;  // the root of a collective; of a message the other rank, as soon as it is known
  Tag tag = kAnyTag;
  std::uint64_t count = 0;
  std::uint64_t input_elements = 0;  // these two where `varying`
  std::uint64_t output_elements = 0;
  std::uint32_t timeout_ms = 0;
  TimePoint created{};  // from a coarse clock too, where the timeout is not short
  TimePoint started{};  // TimePoint{}: not yet, or never
  TimePoint ended{};    // likewise
  std::optional<RecordedPlace> place;
};

}  // namespace rondo
