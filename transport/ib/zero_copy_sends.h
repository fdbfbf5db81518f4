// The zero-copy sends of a stream: ranges of bytes that are sent from the user's memory. That memory must stay
// unchanged until its bytes need no resending. All other bytes of the stream were copied.
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

// Smaller pieces are copied. The copy takes one or two microseconds, which is as long as an additional completion and
// the wait for it.
inline constexpr std::size_t kLeastZeroCopyBytes = 16 * 1024;

class ZeroCopySends {
 public:
  // The maximum number of sends. A ring of 1 MiB has room for this many sends of kLeastZeroCopyBytes.
  static constexpr std::size_t kMax = 64;

  bool full() const { return count_ == kMax; }
  // Adds a send: `memory` has the stream's bytes from offset `begin` on. REQUIRES: not full; `memory` is not empty;
  // `begin` is not below the end of earlier sends.
  void Add(std::uint64_t begin, Bytes memory, const Region& region);

  // Bytes of the stream that are contiguous in memory.
  struct Run {
    Bytes memory;                    // the user's memory; empty: the bytes were copied
    const Region* region = nullptr;  // the region of `memory`
    std::uint64_t end = 0;           // stream offset
    bool is_end = false;             // true: the run ends where a zero-copy send ends
  };
  // Returns the run that begins at offset `from` and ends at `until` or before. REQUIRES: from < until; the memory of
  // these bytes was not given back.
  Run At(std::uint64_t from, std::uint64_t until) const;

  // Gives back the memory of sends whose bytes are all below `until`, because these bytes need no resending. True: some
  // memory was given back.
  bool GiveBack(std::uint64_t until);
  // Whether some send is from memory of a device.
  bool any_of_device() const;
  // Gives all memory back.
  void Clear() { count_ = 0; }

  // Returns the offset below which no byte needs the user's memory. `accepted`: the end of the stream.
  std::uint64_t released(std::uint64_t accepted) const {
    return count_ == 0 ? accepted : std::max(given_back_, sends_[first_].begin);
  }
  // The offset after the last byte whose memory was given back. Bytes below it may be impossible to resend.
  std::uint64_t given_back() const { return given_back_; }

 private:
  struct Send {
    std::uint64_t begin = 0;
    Bytes memory;
    const Region* region = nullptr;
    std::uint64_t end() const { return begin + memory.size(); }
  };

  std::array<Send, kMax> sends_;  // a ring that starts at first_, in the stream's order
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::uint64_t given_back_ = 0;
};

}  // namespace rondo::ib
