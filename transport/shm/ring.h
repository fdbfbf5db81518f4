// One direction of a shared-memory lane: a ring of bytes with one producer and one consumer, in two processes that
// share the memory. The producer is one thread at a time, and so is the consumer.
//
// The byte at stream offset o is stored at ring[o % capacity]. Two counters, each alone in its cache line:
//   written    stored by the producer: the bytes below it are in the ring
//   consumed   stored by the consumer: the bytes below it will not be read again
// written - consumed <= capacity always.
//
// Why two counters are enough, on any machine:
//   - The consumer reads ring bytes only below a `written` that it loaded with acquire. The producer stored that value
//     with release (or stronger) after it had written the bytes. So the consumer sees these bytes.
//   - The producer overwrites ring bytes only below `consumed + capacity`, with a `consumed` that it loaded with
//     acquire. The consumer stored that value with release (or stronger) after it last read the old bytes. So no later
//     read sees overwritten bytes.
//   - Counters only grow and each has one writer, so a stale value causes a delay but no error.
// Both stores are sequentially consistent, not only release, because the publisher loads the doorbell's state
// afterwards. The argument about a sleeping owner needs this (transport/doorbell.h).
//
// Each side remembers the other side's counter, and loads it again only if the remembered value is not enough. If the
// consumer keeps up, the producer loads `consumed` once per `capacity` bytes.
//
// The peer may have a bug, or may be killed while it writes. If a counter is outside its bounds, Sound() returns false.
// No byte outside of the ring is ever accessed.
//
// The atomic is a template parameter, so that ring_test.cc can run this code through many orders of its steps.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/bytes.h"

namespace rondo::shm {

template <typename Counter>
struct RingCounters {
  alignas(kLineBytes) Counter written{};
  alignas(kLineBytes) Counter consumed{};
};

// The largest number of bytes that are copied before they are published, so that the other side works while this side
// still copies.
inline constexpr std::size_t kPublishBytes = 64 * 1024;

template <typename Counter>
class RingProducer {
 public:
  // REQUIRES: capacity is a multiple of kLineBytes; `counters` and `ring` outlive the producer.
  RingProducer(RingCounters<Counter>& counters, std::byte* ring, std::size_t capacity)
      : counters_(counters), ring_(ring), capacity_(capacity) {}

  std::uint64_t accepted() const { return accepted_; }
  bool Sound() const { return sound_; }

  // The number of bytes for which there is room. Loads the consumer's counter only if the remembered value leaves no
  // room for `want` bytes.
  std::size_t Room(std::size_t want) {
    if (want > capacity_ - static_cast<std::size_t>(accepted_ - consumed_)) {
      Learn(counters_.consumed.load(std::memory_order_acquire));
    }
    return capacity_ - static_cast<std::size_t>(accepted_ - consumed_);
  }
  // Appends a copy of `bytes`. The consumer sees the bytes after Publish. REQUIRES: there is room for them.
  void Put(Bytes bytes) {
    while (!bytes.empty()) {
      const std::size_t place = static_cast<std::size_t>(accepted_ % capacity_);
      const std::size_t part = std::min(bytes.size(), capacity_ - place);
      std::memcpy(ring_ + place, bytes.data(), part);
      accepted_ += part;
      bytes = bytes.subspan(part);
    }
  }
  void Publish() { counters_.written.store(accepted_, std::memory_order_seq_cst); }

  // Whether the consumer has made room since the latest Room or HasNews. Reports the same room only once, because
  // unused room is no reason to stay awake. The owner calls this for its last check before it sleeps.
  bool HasNews() {
    const std::uint64_t consumed = counters_.consumed.load(std::memory_order_seq_cst);
    return consumed != consumed_ && std::exchange(reported_, consumed) != consumed;
  }

 private:
  void Learn(std::uint64_t consumed) {
    if (consumed < consumed_ || consumed > accepted_) {
      sound_ = false;
      return;
    }
    consumed_ = consumed;
  }

  RingCounters<Counter>& counters_;
  std::byte* const ring_;
  const std::size_t capacity_;
  std::uint64_t accepted_ = 0;
  std::uint64_t consumed_ = 0;  // the consumer's counter, as this side has last loaded it
  std::uint64_t reported_ = 0;
  bool sound_ = true;
};

template <typename Counter>
class RingConsumer {
 public:
  RingConsumer(RingCounters<Counter>& counters, std::byte* ring, std::size_t capacity)
      : counters_(counters), ring_(ring), capacity_(capacity) {}

  std::uint64_t consumed() const { return consumed_; }
  bool Sound() const { return sound_; }

  // The number of bytes that have arrived. Loads the producer's counter only if the remembered value shows fewer than
  // `want` bytes.
  std::size_t Arrived(std::size_t want) {
    if (static_cast<std::size_t>(written_ - consumed_) < want) Learn(counters_.written.load(std::memory_order_acquire));
    return static_cast<std::size_t>(written_ - consumed_);
  }
  // The first bytes that have arrived: at most `most`, and contiguous in memory.
  Bytes Front(std::size_t most) const { return Piece(consumed_, std::min<std::uint64_t>(most, written_ - consumed_)); }
  // The arrived bytes after the first `skip` bytes: at most `most`, and contiguous in memory.
  Bytes Behind(std::size_t skip, std::size_t most) const {
    const std::uint64_t known = written_ - consumed_;
    return skip >= known ? Bytes() : Piece(consumed_ + skip, std::min<std::uint64_t>(most, known - skip));
  }
  // Consumes `bytes`. REQUIRES: at least that many have arrived.
  void Take(std::size_t bytes) {
    consumed_ += bytes;
    counters_.consumed.store(consumed_, std::memory_order_seq_cst);
  }

  // Whether bytes have arrived since the latest Arrived or HasNews. The owner calls this for its last check before it
  // sleeps.
  bool HasNews() {
    const std::uint64_t written = counters_.written.load(std::memory_order_seq_cst);
    return written != written_ && std::exchange(reported_, written) != written;
  }

 private:
  Bytes Piece(std::uint64_t offset, std::uint64_t most) const {
    const std::size_t place = static_cast<std::size_t>(offset % capacity_);
    return {ring_ + place, std::min<std::size_t>(static_cast<std::size_t>(most), capacity_ - place)};
  }
  void Learn(std::uint64_t written) {
    if (written < written_ || written - consumed_ > capacity_) {
      sound_ = false;
      return;
    }
    written_ = written;
  }

  RingCounters<Counter>& counters_;
  std::byte* const ring_;
  const std::size_t capacity_;
  std::uint64_t consumed_ = 0;
  std::uint64_t written_ = 0;  // the producer's counter, as this side has last loaded it
  std::uint64_t reported_ = 0;
  bool sound_ = true;
};

}  // namespace rondo::shm
