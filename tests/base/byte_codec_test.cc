// Tests the encoding and decoding of fields in a string of bytes.
#include "base/byte_codec.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace rondo {
namespace byte_codec_test {

using namespace std::string_view_literals;

TEST_CASE("Numbers are little-endian, texts have their length in front, and nothing stands between fields") {
  ByteWriter out;
  out.Number(std::uint8_t{0x01}).Number(std::uint16_t{0x0302}).Number(std::uint32_t{0x07060504});
  out.Number(std::uint64_t{0x0F0E0D0C0B0A0908}).Raw("raw");
  out.Text("four").Text<std::uint16_t>("two").Text<std::uint8_t>("").Raw(AsBytes("bytes"));
  const auto expected =
      "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0A\x0B\x0C\x0D\x0E\x0Fraw"
      "\x04\x00\x00\x00"
      "four"
      "\x03\x00two\x00"
      "bytes"sv;
  CHECK(out.size() == expected.size());
  CHECK(out.bytes() == expected);
  CHECK(out.Take() == expected);
}

TEST_CASE("What was written reads back, and then the end is reached") {
  const std::string bytes = ByteWriter()
                                .Number(std::uint16_t{65535})
                                .Text<std::uint8_t>(std::string(255, 'x'))
                                .Text("")
                                .Number(std::uint64_t{1} << 63)
                                .Raw("tail")
                                .Take();
  ByteReader in(bytes);
  CHECK(in.Number<std::uint16_t>() == 65535);
  CHECK(in.Text<std::uint8_t>() == std::string(255, 'x'));
  CHECK(in.Text(0).empty());
  CHECK(in.Number<std::uint64_t>() == std::uint64_t{1} << 63);
  CHECK(in.remaining() == 4);
  CHECK(!in.AtEnd());
  CHECK(in.Raw(4) == "tail");
  CHECK(in.AtEnd());
  CHECK(in.ok());
}

TEST_CASE("Bytes cut anywhere are noticed, and everything from there on is zero or empty") {
  const std::string whole = ByteWriter().Number(std::uint32_t{7}).Text<std::uint16_t>("text").Take();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    ByteReader in(AsBytes(whole).first(size));
    in.Number<std::uint32_t>();
    CHECK(in.Text<std::uint16_t>().empty());
    CHECK(!in.ok());
    CHECK(!in.AtEnd());
    CHECK(in.remaining() == 0);
    CHECK(in.Number<std::uint8_t>() == 0);
    CHECK(in.Raw(0).empty());
    CHECK(!in.ok());
  }
}

TEST_CASE("A text longer than allowed is wrong even where all its bytes are there") {
  const std::string bytes = ByteWriter().Text("five5").Take();
  CHECK(ByteReader(bytes).Text(5) == "five5");
  ByteReader in(bytes);
  CHECK(in.Text(4).empty());
  CHECK(!in.ok());
}

}  // namespace byte_codec_test
}  // namespace rondo
