#include "rendezvous/launchers/store_line.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

namespace rondo {
namespace {

constexpr std::string_view kAt = "at:";
constexpr std::string_view kFailed = "failed:";

bool Plain(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '.' || c == ',' ||
         c == ':' || c == '-' || c == '_' || c == '/';
}

std::string Escaped(std::string_view text, std::size_t max_bytes) {
  std::string escaped;
  for (const char c : text) {
    const std::string next = Plain(c) ? std::string(1, c) : fmt::format("%{:02x}", static_cast<unsigned char>(c));
    if (escaped.size() + next.size() > max_bytes) break;
    escaped += next;
  }
  return escaped;
}

std::string Unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    const char* const digits = text.data() + i + 1;
    const bool escape =
        text[i] == '%' && i + 2 < text.size() && std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2;
    plain += escape ? static_cast<char>(byte) : text[i];
    if (escape) i += 2;
  }
  return plain;
}

}  // namespace

std::string Encode(const StoreLine& line, std::size_t max_bytes) {
  if (!line.failure.empty()) {
    return std::string(kFailed) + Escaped(line.failure, max_bytes - kFailed.size());
  }
  std::string text(kAt);
  for (const HostPort& address : line.addresses) {
    const std::string next = (text.size() == kAt.size() ? "" : ",") + address.ToString();
    if (text.size() + next.size() <= max_bytes) text += next;
  }
  return text;
}

Result<StoreLine> DecodeStoreLine(std::string_view text) {
  StoreLine line;
  if (text.starts_with(kFailed)) {
    line.failure = Unescaped(text.substr(kFailed.size()));
    if (line.failure.empty())
      return Fail(ErrorCode::kProtocol, "rank 0 published '{}', which reports a failure without a reason", text);
    return line;
  }
  std::string_view rest = text.substr(std::min(text.size(), kAt.size()));
  while (text.starts_with(kAt) && !rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    RONDO_ASSIGN(HostPort address, ParseHostPort(item));
    line.addresses.push_back(std::move(address));
  }
  if (line.addresses.empty()) {
    return Fail(ErrorCode::kProtocol, "rank 0 published '{}', which does not contain the address of its store",
                text.substr(0, 80));
  }
  return line;
}

}  // namespace rondo
