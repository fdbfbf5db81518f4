// A buffer between guard bytes, so that a write just outside of it is detected even without a sanitizer. It can begin
// at any distance from an aligned address, as users' buffers do.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/bytes.h"

namespace rondo {

class GuardedBuffer {
 public:
  static constexpr std::size_t kGuardBytes = 64;
  static constexpr std::byte kGuard{0xA5};

  explicit GuardedBuffer(std::size_t size, std::size_t misalignment = 0, std::byte fill = std::byte{0xEE})
      : begin_(kGuardBytes + misalignment % kGuardBytes), size_(size), all_(size + 3 * kGuardBytes, kGuard) {
    std::fill_n(all_.data() + begin_, size_, fill);
  }

  MutableBytes bytes() { return {all_.data() + begin_, size_}; }
  Bytes bytes() const { return {all_.data() + begin_, size_}; }
  std::size_t size() const { return size_; }

  bool GuardsIntact() const {
    const auto is_guard = [](std::byte b) { return b == kGuard; };
    const std::byte* all = all_.data();
    return std::all_of(all, all + begin_, is_guard) && std::all_of(all + begin_ + size_, all + all_.size(), is_guard);
  }

 private:
  std::size_t begin_;
  std::size_t size_;
  std::vector<std::byte> all_;
};

}  // namespace rondo
