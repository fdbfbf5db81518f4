// Makes text that came from outside (a peer, a file, a variable) safe to show. This is necessary because a terminal
// obeys control characters, and some formats accept only UTF-8.
//
// The texts of errors and log lines are always made printable (error.h, log.h). Code that writes foreign text
// elsewhere, or needs it on one line, calls these functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rondo {

enum class LineFeeds : std::uint8_t {
  kEscape,  // a line feed is escaped, so that foreign text in a log cannot begin another line
  kKeep,    // line feeds stay, for text that has several lines
};

// Whether the whole text is printable UTF-8: no control characters (including those of Latin-1), no broken sequences.
bool IsPrintable(std::string_view text, LineFeeds line_feeds = LineFeeds::kEscape);

// Replaces every byte that is not part of a printable character by an escape such as \x1b. Printable text stays as it
// is.
std::string Printable(std::string_view text, LineFeeds line_feeds = LineFeeds::kEscape);

}  // namespace rondo
