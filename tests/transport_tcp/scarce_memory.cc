#include "tests/transport_tcp/scarce_memory.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {
thread_local bool counted = false;
std::atomic<int> countdown{0};
std::atomic<bool> failed{false};

void* Take(std::size_t bytes) noexcept {
  if (counted && countdown.load() > 0 && countdown.fetch_sub(1) == 1) {
    failed.store(true);
    return nullptr;
  }
  return std::malloc(bytes);
}
void* TakeOrThrow(std::size_t bytes) {
  void* const memory = Take(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
}  // namespace

void* operator new(std::size_t bytes) { return TakeOrThrow(bytes); }
void* operator new[](std::size_t bytes) { return TakeOrThrow(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return Take(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return Take(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

namespace rondo::test {

void CountThisThread() { counted = true; }
void FailAllocation(int k) {
  failed.store(false);
  countdown.store(k);
}
bool AllocationFailed() { return failed.load(); }

}  // namespace rondo::test
