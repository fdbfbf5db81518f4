// Fibers: functions with stacks of their own that take turns in one thread. A simulated rank is one, so that it runs
// the blocking code that a process runs, and waiting is a switch to whoever schedules.
//
//   FiberStacks stacks;
//   Fiber fiber(stacks, [&] { Read(); fiber.Suspend(); Write(); });
//   fiber.Resume();   // reads
//   fiber.Resume();   // writes, and has ended
//
// A stack is kStackBytes long, below it a page that may not be touched, so that one too deep is a crash at once and not
// a riddle. Sanitizers are told of every switch.
//
// Thread rule: stacks and fibers stay on the thread that made them.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <vector>

namespace rondo::simulation {

// Stacks, kept for the next fiber: thousands of stories take turns on the same few. Outlives its fibers.
class FiberStacks {
 public:
  FiberStacks() = default;
  ~FiberStacks();
  FiberStacks(const FiberStacks&) = delete;
  FiberStacks& operator=(const FiberStacks&) = delete;

 private:
  friend class Fiber;
  std::byte* Take();  // its lowest byte
  void GiveBack(std::byte* stack) { free_.push_back(stack); }

  std::vector<std::byte*> free_;
};

class Fiber {
 public:
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  static constexpr std::size_t kStackBytes = 1024 * 1024;  // frames are larger there
#else
  static constexpr std::size_t kStackBytes = 256 * 1024;
#endif

  Fiber(FiberStacks& stacks, std::function<void()> body);
  // REQUIRES: it has ended, or never ran: nothing on its stack would be destroyed.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Goes on with the body until it suspends itself or ends. REQUIRES: not ended; called from outside.
  void Resume();
  // Goes back to whoever resumed it. REQUIRES: called from inside.
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

  // What the sanitizers want to have kept over a switch.
  void* inside_fake_ = nullptr;
  void* outside_fake_ = nullptr;
  const void* outside_stack_ = nullptr;
  std::size_t outside_bytes_ = 0;
  void* inside_tsan_ = nullptr;
  void* outside_tsan_ = nullptr;
};

}  // namespace rondo::simulation
