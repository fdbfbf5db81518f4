// Tests the ring between two threads over one mapping, under the thread sanitizer. The sanitizer must report a ring in
// which one acquire load is missing.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string_view>
#include <thread>

#include "transport/shm/ring.h"

namespace rondo::shm {
namespace ring_race_test {

using Sound = std::atomic<std::uint64_t>;
// Loads without acquire. They see the stored value, but do not make earlier writes of the storing thread visible.
struct RelaxedLoad : std::atomic<std::uint64_t> {
  std::uint64_t load(std::memory_order) const { return std::atomic<std::uint64_t>::load(std::memory_order_relaxed); }
};

constexpr std::size_t kCapacity = 256;
constexpr std::size_t kLongest = 40;
constexpr std::uint64_t kBytes = 20'000;

// Lengths vary, so that the compiler emits a call for the copy. Every compiler instruments such a call.
std::size_t LengthAt(std::uint64_t at) { return static_cast<std::size_t>(std::min(1 + at % kLongest, kBytes - at)); }
std::byte ValueAt(std::uint64_t at) { return static_cast<std::byte>(at * 7); }

template <typename Counter>
struct Mapped {
  RingCounters<Counter> counters;
  std::byte ring[kCapacity];
};

// Whether every byte arrived in order.
template <typename Counter>
bool Stream() {
  void* const memory =
      mmap(nullptr, sizeof(Mapped<Counter>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  auto* const mapped = new (memory) Mapped<Counter>{};
  std::thread producer([&] {
    RingProducer<Counter> ring(mapped->counters, mapped->ring, kCapacity);
    std::array<std::byte, kLongest> piece;
    for (std::uint64_t i = 0; i < kBytes;) {
      const std::size_t length = LengthAt(i);
      if (ring.Room(length) < length) {
        std::this_thread::yield();
        continue;
      }
      for (std::size_t k = 0; k < length; ++k) piece[k] = ValueAt(i + k);
      ring.Put(Bytes(piece.data(), length));
      ring.Publish();
      i += length;
    }
  });
  bool right = true;
  RingConsumer<Counter> ring(mapped->counters, mapped->ring, kCapacity);
  for (std::uint64_t i = 0; i < kBytes;) {
    if (ring.Arrived(1) == 0) {
      std::this_thread::yield();
      continue;
    }
    const bool is_next = ring.Front(1)[0] == ValueAt(i);
    right = right && is_next;
    ring.Take(1);
    ++i;
  }
  producer.join();
  munmap(memory, sizeof(Mapped<Counter>));
  return right;
}

TEST_CASE("a stream of bytes between two threads, over memory that processes could share") { CHECK(Stream<Sound>()); }

#if defined(__SANITIZE_THREAD__)
constexpr int kExitOfReport = 66;  // the sanitizer's default exit code after a report

// Environment variable that marks a child process of this test. The child runs one variant of the ring, and the
// sanitizer ends the child when it reports a race.
constexpr const char* kControl = "RONDO_RING_RACE_CONTROL";

int ExitOfControl(const char* which) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    // The report is expected, so it is not printed.
    if (freopen("/dev/null", "w", stderr) == nullptr || freopen("/dev/null", "w", stdout) == nullptr) _exit(1);
    setenv(kControl, which, 1);
    execl("/proc/self/exe", "ring_race_test", "--test-case=the thread sanitizer reports*", nullptr);
    _exit(1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST_CASE("the thread sanitizer reports the same where loads do not acquire") {
  if (const char* const control = getenv(kControl)) {
    CHECK((std::string_view(control) == "sound" ? Stream<Sound>() : Stream<RelaxedLoad>()));
    return;
  }
  CHECK(ExitOfControl("sound") == 0);
  CHECK(ExitOfControl("unsound") == kExitOfReport);
}
#endif

}  // namespace ring_race_test
}  // namespace rondo::shm
