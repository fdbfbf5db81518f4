// Tests the ring of shared memory and its doorbell, under every order of steps and every effect of weak memory.
#include "transport/shm/ring.h"

#include <doctest/doctest.h>

#include <array>
#include <deque>
#include <memory>

#include "tests/support/explorer.h"
#include "tests/support/weak_memory.h"
#include "transport/doorbell.h"

namespace rondo::shm {
namespace ring_test {

using Weak = WeakAtomic<std::uint64_t>;

// Weak atomics with one memory order that is too weak.
struct RelaxedLoad : Weak {
  using Weak::Weak;
  std::uint64_t load(std::memory_order) { return Weak::load(std::memory_order_relaxed); }
};
struct RelaxedStore : Weak {
  using Weak::Weak;
  void store(std::uint64_t value, std::memory_order) { Weak::store(value, std::memory_order_relaxed); }
};

constexpr std::size_t kCapacity = 2;  // small, because a cache line is one byte in this test

template <typename Counter>
struct Subject {
  explicit Subject(Explorer& explorer) : memory(explorer, 2), counters{Counter(memory, 0), Counter(memory, 0)} {
    for (std::size_t i = 0; i < kCapacity; ++i) cells.emplace_back(memory);
  }

  void Produce(int bytes) {
    RingProducer<Counter> producer(counters, ring.data(), kCapacity);
    for (int i = 0; i < bytes;) {
      if (producer.Room(1) == 0) {
        counters.consumed.AwaitNewer();
        continue;
      }
      cells[static_cast<std::size_t>(i) % kCapacity].Write();
      const auto byte = static_cast<std::byte>(i + 1);
      producer.Put(Bytes(&byte, 1));
      producer.Publish();
      ++i;
    }
    sound = sound && producer.Sound();
  }
  void Consume(int bytes) {
    RingConsumer<Counter> consumer(counters, ring.data(), kCapacity);
    for (int i = 0; i < bytes;) {
      if (consumer.Arrived(1) == 0) {
        counters.written.AwaitNewer();
        continue;
      }
      cells[static_cast<std::size_t>(i) % kCapacity].Read();
      right = right && consumer.Front(1)[0] == static_cast<std::byte>(i + 1);
      consumer.Take(1);
      ++i;
    }
    sound = sound && consumer.Sound();
  }

  WeakMemory memory;
  RingCounters<Counter> counters;
  std::array<std::byte, kCapacity> ring{};
  std::deque<PlainCell> cells;
  bool right = true;
  bool sound = true;
};

// The number of races found over all schedules.
template <typename Counter>
int Races() {
  constexpr int kBytes = 3;  // enough bytes that the ring wraps around, and is full once
  Explorer explorer(/*max_preemptions=*/3);
  int races = 0;
  do {
    // On the heap, because the address sanitizer's stack does not keep the alignment of cache lines.
    const auto own = std::make_unique<Subject<Counter>>(explorer);
    Subject<Counter>& subject = *own;
    explorer.Run({[&] { subject.Produce(kBytes); }, [&] { subject.Consume(kBytes); }});
    races += subject.memory.races();
    if (races == 0) REQUIRE(subject.right);
    REQUIRE(subject.sound);
  } while (explorer.NextSchedule());
  CHECK(explorer.deadlocks() == 0);
  CHECK(explorer.schedules() > 100);
  return races;
}

TEST_CASE(
    "no order of steps and no stale value lets a byte be read before it was written, or overwritten before it was "
    "read") {
  CHECK(Races<Weak>() == 0);
}

TEST_CASE("the same is found wanting where loads do not acquire") { CHECK(Races<RelaxedLoad>() > 0); }
TEST_CASE("the same is found wanting where stores do not release") { CHECK(Races<RelaxedStore>() > 0); }

// ---- the sleeping consumer ----

struct WeakSignal {
  explicit WeakSignal(Explorer& e) : explorer(&e) {}
  void Post() {
    explorer->Step();
    readable = true;
  }
  void Take() { readable = false; }  // does not wait for a Post; Take in shared_doorbell.h does not wait either
  void Sleep() {
    explorer->BlockUntil([this] { return readable; });
  }
  Explorer* explorer;
  bool readable = false;
};

// A store that releases, but is not sequentially consistent.
struct ReleaseStore : Weak {
  using Weak::Weak;
  void store(std::uint64_t value, std::memory_order) { Weak::store(value, std::memory_order_release); }
};

// Returns the number of schedules in which a consumer that sleeps on an empty ring never wakes. The consumer tries only
// a few times, because no thread reads the same stale value forever, and more tries find nothing new.
template <typename Counter>
int LostWakeUps() {
  constexpr int kTries = 3;
  Explorer explorer(/*max_preemptions=*/2);
  do {
    WeakMemory memory(explorer, 2);
    const std::unique_ptr<RingCounters<Counter>> own(new RingCounters<Counter>{Counter(memory, 0), Counter(memory, 0)});
    RingCounters<Counter>& counters = *own;
    std::array<std::byte, 64> ring{};
    BasicDoorbell<WeakAtomic<DoorbellState>, WeakSignal> bell(WeakAtomic<DoorbellState>(memory, DoorbellState::kAwake),
                                                              WeakSignal(explorer));
    const auto consume = [&] {
      RingConsumer<Counter> consumer(counters, ring.data(), ring.size());
      for (int i = 0; i < kTries && consumer.Arrived(1) == 0; ++i) {
        if (!bell.Arm() && !consumer.HasNews()) bell.signal().Sleep();
        bell.Disarm();
      }
    };
    const auto produce = [&] {
      RingProducer<Counter> producer(counters, ring.data(), ring.size());
      const std::byte byte{7};
      producer.Put(Bytes(&byte, 1));
      producer.Publish();
      bell.Ring();
    };
    explorer.Run({consume, produce});
  } while (explorer.NextSchedule());
  CHECK(explorer.schedules() > 10);
  return explorer.deadlocks();
}

TEST_CASE("no order of steps and no stale value lets a consumer sleep over a byte") { CHECK(LostWakeUps<Weak>() == 0); }
TEST_CASE("the same is found wanting where what is published is only released") {
  CHECK(LostWakeUps<ReleaseStore>() > 0);
}

}  // namespace ring_test
}  // namespace rondo::shm
