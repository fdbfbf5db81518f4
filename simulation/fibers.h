// Fibers: functions with their own stacks that run alternately in one thread. A simulated rank is a fiber: it runs the
// same blocking code as a process, and a wait switches to the scheduler.
//
//   FiberStacks stacks;
//   Fiber fiber(stacks, [&] { Read(); fiber.Suspend(); Write(); });
//   fiber.Resume();   // reads
//   fiber.Resume();   // writes, and has ended
//
// A stack is kStackBytes long. Below it is a page without access rights, so a stack overflow crashes at once.
// Sanitizers are notified of every switch.
//
// Thread rule: a thread must use only the stacks and fibers that it made.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <vector>

namespace rondo::simulation {

// Stacks, kept for reuse: thousands of scenarios use the same few. Must outlive its fibers.
class FiberStacks {
 public:
  FiberStacks() = default;
  ~FiberStacks();
  FiberStacks(const FiberStacks&) = delete;
  FiberStacks& operator=(const FiberStacks&) = delete;

 private:
  friend class Fiber;
  std::byte* Take();  // returns the stack's lowest byte
  void GiveBack(std::byte* stack) { free_.push_back(stack); }

  std::vector<std::byte*> free_;
};

class Fiber {
 public:
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  static constexpr std::size_t kStackBytes = 1024 * 1024;  // large, because sanitizers enlarge the frames of functions
#else
  static constexpr std::size_t kStackBytes = 256 * 1024;
#endif

  Fiber(FiberStacks& stacks, std::function<void()> body);
  // REQUIRES: the fiber has ended or never ran. Otherwise objects on its stack would not be destroyed.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs the body until it suspends itself or ends. REQUIRES: it has not ended; called from outside the fiber.
  void Resume();
  // Returns to the caller of Resume. REQUIRES: called from inside the fiber.
  void Suspend();
  bool ended() const { return ended_; }

 private:
  static void Entry(unsigned high, unsigned low);
  void Run();

  FiberStacks& stacks_;
  std::function<void()> body_;
  std::byte* const stack_;
  ucontext_t inside_{};
  ucontext_t outside_{};
  bool started_ = false;
  bool ended_ = false;

  // State that the sanitizers need across a switch.
  void* inside_fake_ = nullptr;
  void* outside_fake_ = nullptr;
  const void* outside_stack_ = nullptr;
  std::size_t outside_bytes_ = 0;
  void* inside_tsan_ = nullptr;
  void* outside_tsan_ = nullptr;
};

}  // namespace rondo::simulation
