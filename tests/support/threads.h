// Threads that a test starts, each with a number.
#pragma once

#include <thread>
#include <vector>

namespace rondo {

// Threads with the numbers 0 to count - 1. Each runs a copy of `body` with its number. The destructor waits for all of
// them.
class Threads {
 public:
  template <class Number, class Body>
  Threads(Number count, const Body& body) {
    for (Number number = 0; number < count; ++number) threads_.emplace_back(body, number);
  }
  ~Threads() { Join(); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  void Join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  std::vector<std::thread> threads_;
};

// Runs `body` on `count` threads at once, and returns when all have ended.
template <class Number, class Body>
void OnThreads(Number count, const Body& body) {
  Threads(count, body).Join();
}

}  // namespace rondo
