// Copies that bypass the caches: they copy every byte, and no other, at every alignment.
#include "collectives/kernels/copy.h"

#include <doctest/doctest.h>

#include <vector>

namespace rondo {
namespace copy_test {

TEST_CASE("every byte is copied and none beside them is touched, whatever the alignment and the length") {
  constexpr std::size_t kMax = 400;
  std::vector<std::byte> source(kMax + 64);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i * 37 + 11);
  for (std::size_t to = 0; to < 64; to += 7) {
    for (std::size_t from = 0; from < 64; from += 13) {
      for (std::size_t bytes = 0; bytes <= kMax; bytes += bytes < 140 ? 1 : 31) {
        std::vector<std::byte> destination(kMax + 128, std::byte{0xB7});
        CopyPastCaches(destination.data() + to, source.data() + from, bytes);
        bool right = true;
        for (std::size_t i = 0; i < destination.size(); ++i) {
          const bool inside = i >= to && i < to + bytes;
          right &= destination[i] == (inside ? source[from + i - to] : std::byte{0xB7});
        }
        CAPTURE(to);
        CAPTURE(from);
        CAPTURE(bytes);
        REQUIRE(right);
      }
    }
  }
}

TEST_CASE("no bytes may be nowhere") { CopyPastCaches(nullptr, nullptr, 0); }

}  // namespace copy_test
}  // namespace rondo
