// An answer of a PMI server, in PMI-1 or PMI-2.
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

  // Gives the field's value, or "" if there is no such field.
  std::string Field(std::string_view name) const;
  // Succeeds if the answer is `expected` and its rc is 0 or absent. Otherwise gives kProtocol with the server's
  // message.
  Status Check(std::string_view expected) const;
};

inline constexpr std::size_t kMaxPmiReplyBytes = 64 << 10;  // a longer answer is kProtocol
// The largest length of a value that we send. Every server accepts it, because their limit is 1024.
inline constexpr std::size_t kMaxPmiValueBytes = 1000;

}  // namespace rondo
