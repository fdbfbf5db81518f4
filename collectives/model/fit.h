// Derives the constants of the cost model from measured times.
#pragma once

#include "collectives/model/profile.h"

namespace rondo {

struct Fit {
  MachineCosts costs;
  // Typical factor between prediction and measurement: 1.2 is 20%. It is the exponential of the root mean square of the
  // ratios' logarithms.
  double typical_error = 0;
};

// The constants with which the model fits `measured` best. Every time has the same weight, and errors are relative.
// `cores`: number of cores of each measured host. Constants that no measurement depends on keep their value in `start`
// (links between hosts; hosts with or without enough cores, if only the other kind was measured). No constant leaves
// `start` by more than a factor of 1000. REQUIRES: a measured world of at least two ranks.
Fit FitCosts(const MachineCosts& start, const std::vector<MeasuredWorld>& measured, int cores);

}  // namespace rondo
