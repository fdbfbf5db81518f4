// Derives the constants of the cost model from measured times.
#pragma once

#include "collectives/model/profile.h"

namespace rondo {

struct Fit {
  MachineCosts costs;
  // Typical factor between prediction and measurement: 1.2 means an error of 20%. The factor is the exponential of the
  // root mean square of the logarithms of their ratios.
  double typical_error = 0;
};

// Returns the constants with which the model fits `measured` best. All measured times have the same weight, and errors
// are relative. `cores`: number of CPU cores of each measured host. Constants that no measurement depends on keep their
// value in `start`: for example, those of links between hosts if no measured world spans hosts. The fit changes no
// constant by more than a factor of 1000. REQUIRES: a measured world of at least two ranks.
Fit FitCosts(const MachineCosts& start, const std::vector<MeasuredWorld>& measured, int cores);

}  // namespace rondo
