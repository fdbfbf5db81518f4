// Text that came from outside (a peer's word, a file, a variable), made fit to be shown to people: on a terminal, which
// obeys control characters, and in formats that take nothing but UTF-8.
//
// Errors and log lines are made so wherever they are made (error.h, log.h); whoever writes foreign text anywhere else,
// or wants it on one line, asks here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rondo {

enum class LineFeeds : std::uint8_t {
  kEscape,  // a line is a line: foreign text in a log cannot begin another one
  kKeep,    // of text that has lines of its own
};

// Whether all of it is printable UTF-8: no control characters (those of Latin-1 included), no broken sequences.
bool IsPrintable(std::string_view text, LineFeeds line_feeds = LineFeeds::kEscape);

// The text with every byte that is not part of a printable character written as \x1b. Printable text stays as it is.
std::string Printable(std::string_view text, LineFeeds line_feeds = LineFeeds::kEscape);

}  // namespace rondo
