#include "base/rank_frame.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstddef>

namespace rondo {
namespace {

constexpr std::string_view kRank = "rank ", kRanks = "ranks ", kReason = "aborted: ";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// How many digits `text` begins with.
std::size_t DigitsOf(std::string_view text) {
  const auto end = std::find_if_not(text.begin(), text.end(), IsDigit);
  return static_cast<std::size_t>(end - text.begin());
}

// The separator at the front of `text` if another number follows it, otherwise an empty text.
std::string_view JoinOf(std::string_view text) {
  for (const std::string_view join : {std::string_view(", "), std::string_view(" and ")})
    if (text.starts_with(join) && DigitsOf(text.substr(join.size())) > 0) return text.substr(0, join.size());
  return {};
}

}  // namespace

std::string RankFrame::Name(Rank rank) const {
  const auto index = static_cast<std::size_t>(rank);
  if (rank < 0 || index >= ranks.size()) return fmt::format("rank {} of group {}", rank, group);
  return fmt::format("rank {} (rank {} of group {})", ranks[index], rank, group);
}

std::string RankFrame::Reword(std::string_view text) const {
  const std::size_t reason = text.find(kReason);
  const std::size_t end = reason == std::string_view::npos ? text.size() : reason + kReason.size();
  std::string reworded;
  std::size_t at = 0;
  while (at < end) {
    const bool begins_word = at == 0 || !IsLetter(text[at - 1]);
    const std::string_view rest = text.substr(at, end - at);
    const std::string_view word = rest.starts_with(kRank) ? kRank : rest.starts_with(kRanks) ? kRanks : "";
    std::size_t digits = word.empty() ? 0 : DigitsOf(rest.substr(word.size()));
    if (!begins_word || digits == 0) {
      reworded += text[at++];
      continue;
    }
    at += word.size();
    while (digits > 0) {
      Rank rank = kNoRank;
      const char* const number = text.data() + at;
      const bool fits = std::from_chars(number, number + digits, rank).ec == std::errc();
      reworded += fits ? Name(rank) : fmt::format("rank {}", text.substr(at, digits));
      at += digits;
      const std::string_view join = JoinOf(text.substr(at, end - at));
      reworded += join;
      at += join.size();
      digits = join.empty() ? 0 : DigitsOf(text.substr(at, end - at));
    }
  }
  return reworded.append(text.substr(end));
}

std::string NameOfRank(const RankFrame* frame, Rank rank) {
  return frame != nullptr ? frame->Name(rank) : fmt::format("rank {}", rank);
}

}  // namespace rondo
