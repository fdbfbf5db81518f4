// Runs a test once for each instruction set that this processor has and that the kernels are compiled for.
#pragma once

// clang-format off
#include "collectives/kernels/targets.h"
#include <hwy/highway.h>
// clang-format on

#include <cstdint>

namespace rondo {

// Calls `body(name)` with each instruction set forced, then restores the default.
template <typename Body>
void ForEachInstructionSet(const Body& body) {
  for (std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body(hwy::TargetName(target));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

}  // namespace rondo
