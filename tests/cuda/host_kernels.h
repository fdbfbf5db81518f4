// The device kernels as functions of the host, under the same names: the same arithmetic (cuda/kernels/fold.h),
// compiled by the host's compiler. Each call runs one thread of a kernel.
#pragma once

#include <cstdint>
#include <string_view>

#include "cuda/kernels/fold.h"

namespace rondo::cuda {

using HostKernel = void (*)(const FoldArguments& arguments, std::uint64_t thread, std::uint64_t threads);

// `name` is for example "rondo_fold_float32_sum"; null: no kernel has that name.
inline HostKernel FindHostKernel(std::string_view name) {
  struct Entry {
    std::string_view name;
    HostKernel run;
  };
  static constexpr Entry kEntries[] = {
#define RONDO_HOST_KERNEL(type, op, Element, kOp) {"rondo_fold_" #type "_" #op, &FoldPart<Fold<Element, kOp>>},
      RONDO_FOLDS(RONDO_HOST_KERNEL)
#undef RONDO_HOST_KERNEL
  };
  for (const Entry& entry : kEntries)
    if (entry.name == name) return entry.run;
  return nullptr;
}

}  // namespace rondo::cuda
