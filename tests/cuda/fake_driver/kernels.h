// The kernels of the fake driver, as functions of the host. To add a kernel, add a family to kernels.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace rondo::cuda::fake {

// Returns the address of the bytes that a device sees at `address`. Null: some of the bytes are not the device's, and
// the kernel faults.
using Translate = std::function<std::byte*(const void* address, std::size_t bytes)>;

struct Kernel {
  std::string name;
  std::size_t parameter_bytes = 0;  // size of the only parameter
  // Replaces the device addresses in the copy of the parameter by the results of `translate`. False: the kernel would
  // touch memory that is not the device's.
  std::function<bool(std::byte* parameter, const Translate& translate)> prepare;
  // Runs thread number `thread` of `threads`. Threads run in any order, one at a time.
  std::function<void(const std::byte* parameter, std::uint64_t thread, std::uint64_t threads)> run;
};

// Null: no kernel has that name. The kernel is never destroyed. Two threads must not call this at once.
const Kernel* FindKernel(std::string_view name);

}  // namespace rondo::cuda::fake
