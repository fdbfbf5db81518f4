// Tests how text from outside the process is printed.
#include "base/printable.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/log.h"

namespace rondo {
namespace printable_test {

using namespace std::string_view_literals;

TEST_CASE("Printable text stays as it is, in every script") {
  for (const std::string_view text : {""sv, "plain ~"sv, "\u00dcnic\u00f6de \u65e5\u672c \U0001F600"sv, "\u00a0"sv}) {
    CHECK(IsPrintable(text));
    CHECK(Printable(text) == text);
  }
}

TEST_CASE("What a terminal obeys is written out, byte by byte") {
  CHECK(Printable("\x1b[2J\r\0\x7f"sv) == "\\x1b[2J\\x0d\\x00\\x7f");
  CHECK(Printable("\u009b1m") == "\\xc2\\x9b1m");  // the control sequence introducer of Latin-1
  CHECK(!IsPrintable("\x1b"));
}

TEST_CASE("Bytes that are no UTF-8 are written out: the rest of a line is still read") {
  CHECK(Printable("a\xff\xfe"
                  "b") == "a\\xff\\xfeb");
  CHECK(Printable("cut \xe6\x97"sv) == "cut \\xe6\\x97");          // an incomplete character
  CHECK(Printable("\xc0\xaf"sv) == "\\xc0\\xaf");                  // '/' in too many bytes
  CHECK(Printable("\xed\xa0\x80"sv) == "\\xed\\xa0\\x80");         // half of a surrogate pair
  CHECK(Printable("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");  // beyond U+10FFFF
}

TEST_CASE("A line feed is kept only where lines are meant") {
  CHECK(Printable("a\nb") == "a\\x0ab");
  CHECK(Printable("a\nb", LineFeeds::kKeep) == "a\nb");
  CHECK(!IsPrintable("a\nb"));
  CHECK(IsPrintable("a\nb", LineFeeds::kKeep));
}

TEST_CASE("What was made printable is printable, and making it so again changes nothing") {
  for (unsigned first = 0; first < 256; ++first) {
    for (unsigned second = 0; second < 256; ++second) {
      const std::string once = Printable(std::string{static_cast<char>(first), static_cast<char>(second)});
      REQUIRE(IsPrintable(once));
      REQUIRE(Printable(once) == once);
    }
  }
}

TEST_CASE("An error shows nothing of a peer's text that a terminal would obey") {
  ErrorDetails details;
  details.code = ErrorCode::kStale;
  details.message = "the caller belongs to job '\x1b[31mred'\nand a second line";
  details.host = "\xff";
  details.first_cause = "\r";
  const Error error(details);
  CHECK(error.message() == "the caller belongs to job '\\x1b[31mred'\nand a second line");
  CHECK(error.details().host == "\\xff");
  CHECK(IsPrintable(error.ToString(), LineFeeds::kKeep));
  CHECK(IsPrintable(Error(ErrorCode::kProtocol, "\x07").ToString()));
  CHECK(error.With([](ErrorDetails& d) { d.collective = "\b"; }).details().collective == "\\x08");
}

TEST_CASE("A log line shows nothing of a foreign client's text that a terminal would obey") {
  struct Kept final : Logger {
    void Write(LogLevel, std::string_view text) override { lines.emplace_back(text); }
    std::vector<std::string> lines;
  } kept;
  Log(&kept, LogLevel::kWarning, "a foreign client said '{}'", "GET \x1b]0;owned\x07");
  REQUIRE(kept.lines.size() == 1);
  CHECK(kept.lines.front() == "a foreign client said 'GET \\x1b]0;owned\\x07'");
}

}  // namespace printable_test
}  // namespace rondo
