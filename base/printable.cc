#include "base/printable.h"

#include <fmt/format.h>

#include <cstddef>
#include <iterator>

namespace rondo {
namespace {

// The size of the printable character at the front of `text`; 0: `text` does not begin with one. The valid second bytes
// for each first byte are those of table 3-7 of the Unicode standard (15.0), without the control characters U+0080 to
// U+009F.
std::size_t CharacterBytes(std::string_view text, LineFeeds line_feeds) {
  const auto byte = [&](std::size_t at) { return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u; };
  const unsigned first = byte(0), second = byte(1);
  if (first == '\n') return line_feeds == LineFeeds::kKeep ? 1 : 0;
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  unsigned low = 0x80, high = 0xbf;
  switch (first) {
    case 0xc2:
    case 0xe0: low = 0xa0; break;
    case 0xed: high = 0x9f; break;
    case 0xf0: low = 0x90; break;
    case 0xf4: high = 0x8f; break;
    default: break;
  }
  if (first < 0xc2 || first > 0xf4 || second < low || second > high) return 0;
  const std::size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  for (std::size_t at = 2; at < bytes; ++at) {
    if ((byte(at) & 0xc0u) != 0x80) return 0;
  }
  return bytes;
}

}  // namespace

bool IsPrintable(std::string_view text, LineFeeds line_feeds) {
  while (!text.empty()) {
    const std::size_t bytes = CharacterBytes(text, line_feeds);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string Printable(std::string_view text, LineFeeds line_feeds) {
  std::string shown;
  while (!text.empty()) {
    const std::size_t bytes = CharacterBytes(text, line_feeds);
    if (bytes == 0) {
      fmt::format_to(std::back_inserter(shown), "\\x{:02x}", static_cast<unsigned char>(text.front()));
    } else {
      shown += text.substr(0, bytes);
    }
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return shown;
}

}  // namespace rondo
