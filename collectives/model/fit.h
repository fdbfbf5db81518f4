// Constants of the cost model from measured times.
#pragma once

#include "collectives/model/profile.h"

namespace rondo {

struct Fit {
  MachineCosts costs;
  // By what factor the predictions are off, typically: 1.2 is 20%. The root mean square of the ratios' logarithms.
  double typical_error = 0;
};

// The constants under which the model comes closest to `measured`, each time weighing alike by its ratio to the
// prediction. `cores` are those of each host that measured. What the measurements do not show (links between hosts;
// full or empty cores where only the other was measured) stays as in `start`, and no constant leaves it by more than a
// factor of 1000. REQUIRES: some world of two ranks or more.
Fit FitCosts(const MachineCosts& start, const std::vector<MeasuredWorld>& measured, int cores);

}  // namespace rondo
