// The memory of one record: two cache lines that one thread writes while other threads may read them (a seqlock).
//
//   slot.Open();  slot.Set(word, value); ...  slot.Close();      the writer
//   RecordSlot::Words words;  if (slot.Read(words)) ...          any thread
//
// The version is odd during a write. Every word is stored with release semantics, so it is not visible before the odd
// version, and it is loaded with acquire semantics. So a reader that sees a word of a newer record also sees a newer
// version when it loads the version again, and then it retries. No fence is needed (thread sanitizers do not support
// fences), and on x86 all of these accesses are plain moves.
//
// Thread rule: one writer at a time, which must see the writes of the writers before it; any number of readers.
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
  // For the writer only.
  std::uint64_t Get(std::size_t word) const { return words_[word].load(std::memory_order_relaxed); }
  void Close() { version_.store(version_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

  // Reads the record. False: the slot was never written, or every attempt found a writer at work.
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
  // A write takes some nanoseconds. If the writer's thread loses its core during a write, the reader gives up and skips
  // the record.
  static constexpr int kAttempts = 10'000;

  std::atomic<std::uint64_t> version_{0};
  std::array<std::atomic<std::uint64_t>, kWords> words_{};
};
static_assert(sizeof(RecordSlot) == 2 * kLineBytes);

}  // namespace rondo
