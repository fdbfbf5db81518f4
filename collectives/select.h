// Which algorithm serves a collective of a size. A pure function, so every rank chooses alike.
#pragma once

#include <cstdint>
#include <string>

#include "collectives/schedule/step.h"

namespace rondo {

struct Selection {
  Algorithm algorithm;
  const char* reason;  // one clause: "few bytes: fewest rounds"
};

// `bytes`: of the whole vector of one rank; 0 for barriers.
Selection Select(Collective collective, int world_size, std::uint64_t bytes);

}  // namespace rondo
