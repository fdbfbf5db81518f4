#include "tests/faults/processes/footprint.h"

#include <doctest/doctest.h>
#include <pthread.h>

#include <atomic>
#include <thread>

namespace rondo::processes {
namespace footprint_test {

// A joined thread may still be listed, because the kernel wakes the joining thread before it removes the joined one.
TEST_CASE("a thread that has been joined is not left over, however soon one looks") {
  // Starts a thread before the measurement, because ThreadSanitizer starts its own thread together with the first
  // thread.
  std::thread([] {}).join();
  const Footprint before = Footprint::Take();
  for (int i = 0; i < 5000; ++i) {
    std::thread([] {}).join();
    REQUIRE(Footprint::Take().MoreThan(before).empty());
  }
}

TEST_CASE("a thread that runs is left over, by its name, whatever is in it") {
  const Footprint before = Footprint::Take();
  std::atomic<bool> named = false, over = false;
  std::thread running([&] {
    pthread_setname_np(pthread_self(), "a) R (4");
    named = true;
    named.notify_all();
    over.wait(false);
  });
  named.wait(false);
  const std::vector<std::string> more = Footprint::Take().MoreThan(before);
  over = true;
  over.notify_all();
  running.join();
  REQUIRE(more.size() == 1);
  CHECK(more.front().find("'a) R (4'") != std::string::npos);
}

}  // namespace footprint_test
}  // namespace rondo::processes
