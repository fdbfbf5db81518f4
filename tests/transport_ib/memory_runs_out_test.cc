// Tests the case that memory runs out while a region is removed. The removed region must not be found afterwards, and
// all other regions must still be found. This matters most for regions of device memory: if a lane did not find such a
// region, the CPU would read device memory.
#include <doctest/doctest.h>

#include <array>
#include <cstdlib>
#include <new>

#include "transport/ib/registrations.h"

namespace {
thread_local bool none_left = false;

void* Take(std::size_t bytes) {
  void* const memory = none_left ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
}  // namespace

void* operator new(std::size_t bytes) { return Take(bytes); }
void* operator new[](std::size_t bytes) { return Take(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace rondo::ib {
namespace {

TEST_CASE("a region that is removed when memory has run out is gone, and only that") {
  static std::array<std::byte, 400> memory;
  const Bytes all(memory);
  const auto registrations = std::make_shared<Registrations>();
  RegistrationsView view(registrations);
  const Region gpu{.memory = all.first(100), .keys = {1}, .of_device = true};
  const Region other_gpu{.memory = all.subspan(100, 100), .keys = {2}, .of_device = true};
  const Region host{.memory = all.subspan(200, 100), .keys = {3}};
  const Region other_host{.memory = all.subspan(300, 100), .keys = {4}};
  for (const Region* region : {&gpu, &other_gpu, &host, &other_host}) registrations->Add(*region);
  CHECK(view.Find(other_host.memory) == &other_host);

  none_left = true;
  registrations->Remove(gpu);
  registrations->Remove(host);
  none_left = false;
  CHECK(!view.IsOfDevice(gpu.memory));
  CHECK(view.FindOfDevice(gpu.memory).region == nullptr);
  CHECK(view.Find(host.memory) == nullptr);
  CHECK(view.FindOfDevice(other_gpu.memory).region == &other_gpu);
  CHECK(view.Find(other_host.memory) == &other_host);

  // When there is memory again, the removed regions must disappear completely.
  registrations->Add(gpu);
  CHECK(view.FindOfDevice(gpu.memory).region == &gpu);
  registrations->Remove(gpu);
  CHECK(!view.IsOfDevice(gpu.memory));
  CHECK(view.Find(other_host.memory) == &other_host);
  for (const Region* region : {&other_gpu, &other_host}) registrations->Remove(*region);
  CHECK(!view.any_of_device());
}

}  // namespace
}  // namespace rondo::ib
