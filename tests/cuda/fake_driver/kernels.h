// The kernels that the fake driver has, as functions of the host. For one more, a family is added to kernels.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace rondo::cuda::fake {

// Where the bytes lie that a device sees at the address; null: not all of them are its own, and the kernel faults.
using Translate = std::function<std::byte*(const void* address, std::size_t bytes)>;

struct Kernel {
  std::string name;
  std::size_t parameter_bytes = 0;  // of its only parameter
  // Puts real addresses into the copy of the parameter. False: it would touch what is not the device's.
  std::function<bool(std::byte* parameter, const Translate& translate)> prepare;
  // One thread of all. They are called in any order, one at a time.
  std::function<void(const std::byte* parameter, std::uint64_t thread, std::uint64_t threads)> run;
};

// Null: there is none of that name. It stays. Not from two threads at once.
const Kernel* FindKernel(std::string_view name);

}  // namespace rondo::cuda::fake
