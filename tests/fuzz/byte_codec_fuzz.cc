// base/byte_codec: the input decides which fields are read, and in which order, from the rest of the input.
//
// An input has one byte with the number of fields, then one byte for each field, then the bytes from which the fields
// are read.
#include <algorithm>
#include <cstdint>

#include "base/byte_codec.h"
#include "tests/fuzz/harness.h"

namespace rondo::fuzz::byte_codec_fuzz {
enum class Read : std::uint8_t { kNumber8, kNumber16, kNumber32, kNumber64, kText8, kText16, kText32, kRaw };

// Reads one field and encodes it again.
void Copy(ByteReader& in, std::uint8_t what, ByteWriter& out) {
  const std::size_t limit = what >> 3;  // limit of a text, and length of a raw field
  switch (static_cast<Read>(what & 7)) {
    case Read::kNumber8: out.Number(in.Number<std::uint8_t>()); break;
    case Read::kNumber16: out.Number(in.Number<std::uint16_t>()); break;
    case Read::kNumber32: out.Number(in.Number<std::uint32_t>()); break;
    case Read::kNumber64: out.Number(in.Number<std::uint64_t>()); break;
    case Read::kText8: out.Text<std::uint8_t>(in.Text<std::uint8_t>(limit)); break;
    case Read::kText16: out.Text<std::uint16_t>(in.Text<std::uint16_t>()); break;
    case Read::kText32: out.Text<std::uint32_t>(in.Text(limit)); break;
    case Read::kRaw: out.Raw(in.Raw(limit)); break;
  }
}

Corpus HarnessCorpus() {
  const std::string all("\x08\x00\x01\x02\x03\x24\x05\x26\x3f", 9);
  const std::string fields = ByteWriter()
                                 .Number(std::uint8_t{1})
                                 .Number(std::uint16_t{2})
                                 .Number(std::uint32_t{3})
                                 .Number(std::uint64_t{4})
                                 .Text<std::uint8_t>("t8")
                                 .Text<std::uint16_t>("text")
                                 .Text("t32")
                                 .Raw("seven 7")
                                 .Take();
  return {.seeds = {all + fields, all + fields.substr(0, 20)}, .words = {std::string(4, '\xff')}};
}

void CheckInput(std::string_view input) {
  const std::size_t count = input.empty() ? 0 : static_cast<unsigned char>(input.front());
  const std::string_view list = input.substr(std::min<std::size_t>(input.size(), 1), count);
  const std::string_view bytes = input.substr(std::min(input.size(), 1 + count));

  ByteReader in(bytes);
  ByteWriter out;
  bool was_ok = true;
  for (const char what : list) {
    const std::size_t remaining = in.remaining();
    ByteWriter field;
    Copy(in, static_cast<std::uint8_t>(what), field);
    RONDO_HOLDS(was_ok || !in.ok(), "a reader that failed is well again");
    RONDO_HOLDS(in.remaining() <= remaining);
    if (in.ok()) {
      RONDO_HOLDS(field.size() == remaining - in.remaining(), "{} bytes gave {}", remaining - in.remaining(),
                  field.size());
      out.Raw(field.bytes());
    } else {
      const std::string& read = field.bytes();  // must be zeros, because a missing field has no value
      RONDO_HOLDS(std::all_of(read.begin(), read.end(), [](char c) { return c == 0; }));
      RONDO_HOLDS(in.remaining() == 0 && !in.AtEnd());
    }
    was_ok = in.ok();
  }
  RONDO_HOLDS(out.bytes() == bytes.substr(0, out.size()));
  if (in.ok()) RONDO_HOLDS(in.AtEnd() == (out.size() == bytes.size()));
}

}  // namespace rondo::fuzz::byte_codec_fuzz
