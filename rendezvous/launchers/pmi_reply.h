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
// The maximum length of a value that Rondo sends. Every server accepts it, because servers allow 1024 bytes.
inline constexpr std::size_t kMaxPmiValueBytes = 1000;

}  // namespace rondo
