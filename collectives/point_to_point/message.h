// What a message between two ranks is known by.
//
// A send names a rank and a tag; a receive names a rank or kAnyRank, and a tag or kAnyTag. Messages of one (sender,
// tag) are received in the order in which they were sent; nothing else has an order.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/ids.h"

namespace rondo {

// Chosen by the user: 0 to 2^31 - 1.
using Tag = std::int32_t;

// Of a receive: takes what comes from whomever, whatever its tag.
inline constexpr Rank kAnyRank = -2;
inline constexpr Tag kAnyTag = -1;

// What a receive got. `count` elements were written to the front of its buffer; the rest of it is as it was.
struct Message {
  Rank source = kNoRank;
  Tag tag = kAnyTag;
  DataType type = DataType::kUint8;
  std::uint64_t count = 0;
  bool operator==(const Message&) const = default;
};

}  // namespace rondo
