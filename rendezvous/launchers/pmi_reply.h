// An answer of a PMI server, whichever version it came in.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rondo {

struct PmiReply {
  std::string command;
  std::map<std::string, std::string, std::less<>> fields;

  // The field's value, "" where there is none.
  std::string Field(std::string_view name) const;
  // kProtocol unless it is an answer called `expected` whose rc, where it has one, is 0; says what the server said.
  Status Check(std::string_view expected) const;
};

inline constexpr std::size_t kMaxPmiReplyBytes = 64 << 10;  // more in one answer is kProtocol
inline constexpr std::size_t kMaxPmiValueBytes = 1000;      // what every server takes as a value (their limit is 1024)

}  // namespace rondo
