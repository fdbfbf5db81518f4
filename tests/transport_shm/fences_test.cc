// Tests the fences in two processes. Each process stores to its own variable and then loads the variable of the other
// process. At least one process must see the other's store, although only one executes a fence of the processor.
#include "transport/shm/fences.h"

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <new>

#include "base/bytes.h"

namespace rondo::shm {
namespace fences_test {

constexpr int kRounds = 20'000;

struct Shared {
  alignas(kLineBytes) std::atomic<int> often;
  alignas(kLineBytes) std::atomic<int> rarely;
  alignas(kLineBytes) std::atomic<int> begun;
  alignas(kLineBytes) std::atomic<int> ended;
  // The value that the process with the light fence loaded in the latest finished round.
  alignas(kLineBytes) std::atomic<int> seen;
};

void AwaitBoth(std::atomic<int>& count, int round) {
  count.fetch_add(1);
  for (int looks = 0; count.load() < 2 * round; ++looks)
    if (looks % 1024 == 1023) sched_yield();  // so that both processes run even if there is only one CPU core
}

// Returns the number of rounds in which neither process saw the other's store.
template <typename Fence>
int RunRounds(Shared& shared, bool is_often, const Fence& fence) {
  int misses = 0;
  std::atomic<int>& own = is_often ? shared.often : shared.rarely;
  const std::atomic<int>& other = is_often ? shared.rarely : shared.often;
  for (int round = 1; round <= kRounds; ++round) {
    AwaitBoth(shared.begun, round);
    own.store(round, std::memory_order_relaxed);
    fence();
    const int seen = other.load(std::memory_order_relaxed);
    if (is_often) shared.seen.store(seen);
    AwaitBoth(shared.ended, round);
    if (!is_often && seen != round && shared.seen.load() != round) ++misses;
  }
  return misses;
}

TEST_CASE("a light and a heavy fence together are as good as two of the processor's") {
  void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  auto& shared = *new (memory) Shared{};
  if (!JoinFences()) {
    MESSAGE("skipped: the kernel refuses membarrier here");
    return;
  }
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (!JoinFences()) {
      shared.begun.store(1 << 30);  // a number so large that the parent process never waits
      shared.ended.store(1 << 30);
      _exit(2);
    }
    RunRounds(shared, /*is_often=*/true, LightFence);
    _exit(0);
  }
  CHECK(RunRounds(shared, /*is_often=*/false, HeavyFence) == 0);
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  munmap(memory, sizeof(Shared));
}

}  // namespace fences_test
}  // namespace rondo::shm
