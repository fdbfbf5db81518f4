// The memory of one record: two cache lines that one thread writes while any other may read them (a seqlock).
//
//   slot.Open();  slot.Set(word, value); ...  slot.Close();      the writer
//   RecordSlot::Words words;  if (slot.Read(words)) ...          any thread
//
// The version is odd while somebody writes. Every word is stored with release, and so after the odd version, and loaded
// with acquire: a reader that sees one word of a newer record also sees a newer version when it looks again, and starts
// over. No fence is needed (thread sanitizers do not understand them), and on x86 all of these are plain moves.
//
// Thread rule: one writer at a time, each of which sees what those before it did; any number of readers.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace rondo {

class alignas(kLineBytes) RecordSlot {
 public:
  static constexpr std::size_t kWords = 2 * kLineBytes / sizeof(std::uint64_t) - 1;
  using Words = std::array<std::uint64_t, kWords>;

  void Open() { version_.store(version_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  void Set(std::size_t word, std::uint64_t value) { words_[word].store(value, std::memory_order_release); }
  // For writers.
  std::uint64_t Get(std::size_t word) const { return words_[word].load(std::memory_order_relaxed); }
  void Close() { version_.store(version_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

  // False: nothing was ever written here, or writers were at it all the time.
  bool Read(Words& words) const {
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const std::uint64_t before = version_.load(std::memory_order_acquire);
      if (before == 0) return false;
      if (before % 2 != 0) continue;
      for (std::size_t i = 0; i < kWords; ++i) words[i] = words_[i].load(std::memory_order_acquire);
      if (version_.load(std::memory_order_relaxed) == before) return true;
    }
    return false;
  }

 private:
  // A writer takes some nanoseconds. Where its thread loses its core in the middle, the record is left out.
  static constexpr int kAttempts = 10'000;

  std::atomic<std::uint64_t> version_{0};
  std::array<std::atomic<std::uint64_t>, kWords> words_{};
};
static_assert(sizeof(RecordSlot) == 2 * kLineBytes);

}  // namespace rondo
