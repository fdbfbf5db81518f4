// A parser with one deliberate bug of each kind that the harnesses must find. tests/fuzz/run must report these bugs,
// because otherwise its runs without findings would prove nothing. The parser is not part of the test suite.
#include <algorithm>
#include <vector>

#include "base/byte_codec.h"
#include "tests/fuzz/harness.h"

namespace rondo::fuzz {
namespace {

volatile char g_read;  // prevents the compiler from removing the read

// A record: kind, length, bytes. Comments describe the bugs, except for kind 'p', whose check fails for a wrong length.
void Parse(std::string_view input) {
  ByteReader in(input);
  const auto kind = in.Number<std::uint8_t>();
  const std::size_t length = in.Number<std::uint16_t>();
  if (!in.ok()) return;
  const char* const bytes = input.data() + 3;
  switch (kind) {
    case 'o': g_read = length == 0 ? '\0' : bytes[length - 1]; break;  // trusts the length: reads past the end
    case 'a': {                                                        // allocates before the bytes have been read
      const Allocations allocations;
      std::vector<char> room(length * 64);
      g_read = room.empty() ? '\0' : room.front();
      allocations.CheckLargest(4096 + 64 * input.size());
      break;
    }
    case 'u': g_read = static_cast<char>(static_cast<int>(length) << (length % 64)); break;  // shifts by too many bits
    case 'p': RONDO_HOLDS(in.remaining() == length, "says {}, has {}", length, in.remaining()); break;
    case 'l':
      while (length == 0x6c6c) g_read = g_read + 1;  // never ends NOLINT(bugprone-infinite-loop): on purpose
      break;
    default: break;
  }
}

}  // namespace

Corpus HarnessCorpus() {
  Corpus corpus;
  for (const char kind : {'o', 'a', 'u', 'p'}) {
    corpus.seeds.push_back(ByteWriter().Number(static_cast<std::uint8_t>(kind)).Text<std::uint16_t>("four").Take());
  }
  return corpus;
}

void CheckInput(std::string_view input) { Parse(input); }

}  // namespace rondo::fuzz
