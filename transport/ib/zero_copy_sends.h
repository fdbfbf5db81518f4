// Which bytes of a stream that goes out lie in memory of the user, lent until they need not be sent again; all others
// were copied.
//
// Thread rule: one thread at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "transport/ib/registrations.h"

namespace rondo::ib {

// Fewer bytes are copied: that takes a microsecond or two, as long as another completion and the wait for it.
inline constexpr std::size_t kLeastZeroCopyBytes = 16 * 1024;

class ZeroCopySends {
 public:
  // As many as lie in a window of 1 MiB.
  static constexpr std::size_t kMost = 64;

  bool full() const { return count_ == kMost; }
  // `memory` is the stream from offset `begin` on. REQUIRES: not full; not empty; behind all that was lent before.
  void Add(std::uint64_t begin, Bytes memory, const Region& region);

  // Bytes of the stream that lie side by side.
  struct Run {
    Bytes memory;                    // where they lie; empty: they were copied
    const Region* region = nullptr;  // of those lent
    std::uint64_t end = 0;           // in the stream
    bool is_end = false;             // of a loan
  };
  // From offset `from` on, at most up to `until`. REQUIRES: from < until; what was lent there has not been given back.
  Run At(std::uint64_t from, std::uint64_t until) const;

  // Bytes below that offset need not be sent again. True: of those that are lent, too.
  bool GiveBack(std::uint64_t until);
  // Whether there are loans of a device's memory.
  bool any_of_device() const;
  // All, wherever they are.
  void Clear() { count_ = 0; }

  // No byte below is lent. `accepted`: the end of the stream.
  std::uint64_t released(std::uint64_t accepted) const {
    return count_ == 0 ? accepted : std::max(given_back_, sends_[first_].begin);
  }
  // Behind the last byte that was lent once and is not any more: nothing in front of it can be sent again in full.
  std::uint64_t given_back() const { return given_back_; }

 private:
  struct Send {
    std::uint64_t begin = 0;
    Bytes memory;
    const Region* region = nullptr;
    std::uint64_t end() const { return begin + memory.size(); }
  };

  std::array<Send, kMost> sends_;  // from first_ on, counted round, in the stream's order
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::uint64_t given_back_ = 0;
};

}  // namespace rondo::ib
