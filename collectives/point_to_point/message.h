// How messages between ranks are addressed.
//
// A send names a rank and a tag; a receive names a rank or kAnyRank, and a tag or kAnyTag. Messages of one (sender,
// tag) are received in the order in which they were sent. No other order is guaranteed.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/ids.h"

namespace rondo {

// Chosen by the user: 0 to 2^31 - 1.
using Tag = std::int32_t;

// In a receive: match messages from any rank; match messages with any tag.
inline constexpr Rank kAnyRank = -2;
inline constexpr Tag kAnyTag = -1;

// The message that a receive got. `count` elements were written to the front of its buffer; the rest of the buffer is
// unchanged.
struct Message {
  Rank source = kNoRank;
  Tag tag = kAnyTag;
  DataType type = DataType::kUint8;
  std::uint64_t count = 0;
  bool operator==(const Message&) const = default;
};

}  // namespace rondo
