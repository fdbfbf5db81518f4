// The zero-copy sends of a stream: ranges of its bytes that are sent from the user's memory, and are needed there until
// they need not be sent again. All other bytes were copied.
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

// Fewer bytes are copied, which takes a microsecond or two, as long as one more completion and the wait for it.
inline constexpr std::size_t kLeastZeroCopyBytes = 16 * 1024;

class ZeroCopySends {
 public:
  // As many as fit into a ring of 1 MiB.
  static constexpr std::size_t kMost = 64;

  bool full() const { return count_ == kMost; }
  // `memory` has the stream's bytes from offset `begin` on. REQUIRES: not full; `memory` is not empty; `begin` is
  // behind all earlier sends.
  void Add(std::uint64_t begin, Bytes memory, const Region& region);

  // Bytes of the stream that are in one piece.
  struct Run {
    Bytes memory;                    // the user's memory; empty: they were copied
    const Region* region = nullptr;  // of `memory`
    std::uint64_t end = 0;           // in the stream
    bool is_end = false;             // the run ends with a zero-copy send
  };
  // The run from offset `from` on, at most up to `until`. REQUIRES: from < until; no memory there was given back.
  Run At(std::uint64_t from, std::uint64_t until) const;

  // Bytes below that offset need not be sent again. True: some memory was given back.
  bool GiveBack(std::uint64_t until);
  // Whether some memory is a device's.
  bool any_of_device() const;
  // Gives all memory back.
  void Clear() { count_ = 0; }

  // No byte below that offset needs the user's memory. `accepted`: the end of the stream.
  std::uint64_t released(std::uint64_t accepted) const {
    return count_ == 0 ? accepted : std::max(given_back_, sends_[first_].begin);
  }
  // The offset behind the last byte whose memory was given back. The stream before it cannot be sent again as a whole.
  std::uint64_t given_back() const { return given_back_; }

 private:
  struct Send {
    std::uint64_t begin = 0;
    Bytes memory;
    const Region* region = nullptr;
    std::uint64_t end() const { return begin + memory.size(); }
  };

  std::array<Send, kMost> sends_;  // a ring from first_ on, in the stream's order
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::uint64_t given_back_ = 0;
};

}  // namespace rondo::ib
