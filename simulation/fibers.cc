#include "simulation/fibers.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "base/check.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#endif
#if __has_feature(thread_sanitizer) && !defined(__SANITIZE_THREAD__)
#define __SANITIZE_THREAD__ 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace rondo::simulation {
namespace {

std::size_t PageBytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

// BeforeSwitch is called before a switch to the given stack, AfterSwitch after a switch back to the fiber that stored
// `fake`.
void BeforeSwitch([[maybe_unused]] void** fake, [[maybe_unused]] const void* stack,
                  [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(fake, stack, bytes);
#endif
}
void AfterSwitch([[maybe_unused]] void* fake, [[maybe_unused]] const void** from, [[maybe_unused]] std::size_t* bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake, from, bytes);
#endif
}

}  // namespace

FiberStacks::~FiberStacks() {
  for (std::byte* stack : free_) munmap(stack - PageBytes(), Fiber::kStackBytes + PageBytes());
}

std::byte* FiberStacks::Take() {
  if (!free_.empty()) {
    std::byte* const stack = free_.back();
    free_.pop_back();
    return stack;
  }
  const std::size_t bytes = Fiber::kStackBytes + PageBytes();
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  RONDO_CHECK(mapped != MAP_FAILED, "no memory for a stack of {} bytes", bytes);
  RONDO_CHECK(mprotect(mapped, PageBytes(), PROT_NONE) == 0, "a guard page cannot be made");
  return static_cast<std::byte*>(mapped) + PageBytes();
}

Fiber::Fiber(FiberStacks& stacks, std::function<void()> body)
    : stacks_(stacks), body_(std::move(body)), stack_(stacks.Take()) {
  RONDO_CHECK(getcontext(&inside_) == 0);
  inside_.uc_stack.ss_sp = stack_;
  inside_.uc_stack.ss_size = kStackBytes;
  inside_.uc_link = nullptr;
  // makecontext passes only ints.
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  makecontext(&inside_, reinterpret_cast<void (*)()>(&Fiber::Entry), 2, static_cast<unsigned>(self >> 32),
              static_cast<unsigned>(self));
#if defined(__SANITIZE_THREAD__)
  inside_tsan_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
  RONDO_CHECK(ended_ || !started_, "a fiber is destroyed in the middle of its body");
#if defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(inside_tsan_);
#endif
  stacks_.GiveBack(stack_);
}

void Fiber::Resume() {
  RONDO_CHECK(!ended_, "a fiber that has ended is resumed");
  started_ = true;
#if defined(__SANITIZE_THREAD__)
  outside_tsan_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(inside_tsan_, 0);
#endif
  BeforeSwitch(&outside_fake_, stack_, kStackBytes);
  swapcontext(&outside_, &inside_);
  AfterSwitch(outside_fake_, nullptr, nullptr);
}

void Fiber::Suspend() {
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(outside_tsan_, 0);
#endif
  BeforeSwitch(&inside_fake_, outside_stack_, outside_bytes_);
  swapcontext(&inside_, &outside_);
  AfterSwitch(inside_fake_, &outside_stack_, &outside_bytes_);
}

void Fiber::Entry(unsigned high, unsigned low) { reinterpret_cast<Fiber*>(std::uintptr_t{high} << 32 | low)->Run(); }

void Fiber::Run() {
  AfterSwitch(nullptr, &outside_stack_, &outside_bytes_);
  body_();
  body_ = nullptr;  // destroys the objects captured by body_ now, not when the fiber is destroyed
  ended_ = true;
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(outside_tsan_, 0);
#endif
  // This fiber never runs again. The first argument is null, so that the sanitizer frees its fake stack.
  BeforeSwitch(nullptr, outside_stack_, outside_bytes_);
  swapcontext(&inside_, &outside_);
  RONDO_CHECK(false, "a fiber continues after its end");
}

}  // namespace rondo::simulation
