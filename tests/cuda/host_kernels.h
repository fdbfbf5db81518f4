// The device kernels as functions of the host, under the same names: the same arithmetic (cuda/kernels/reduce.h),
// compiled by the host's compiler. Each call runs one thread of a kernel.
#pragma once

#include <cstdint>
#include <string_view>

#include "cuda/kernels/reduce.h"

namespace rondo::cuda {

using HostKernel = void (*)(const ReduceArguments& arguments, std::uint64_t thread, std::uint64_t threads);

// `name` is for example "rondo_device_reduce_float32_sum"; null: no kernel has that name.
inline HostKernel FindHostKernel(std::string_view name) {
  struct Entry {
    std::string_view name;
    HostKernel run;
  };
  static constexpr Entry kEntries[] = {
#define RONDO_HOST_KERNEL(type, op, Element, kOp) \
  {"rondo_device_reduce_" #type "_" #op, &ReducePart<Reduction<Element, kOp>>},
      RONDO_REDUCTIONS(RONDO_HOST_KERNEL)
#undef RONDO_HOST_KERNEL
  };
  for (const Entry& entry : kEntries)
    if (entry.name == name) return entry.run;
  return nullptr;
}

}  // namespace rondo::cuda
