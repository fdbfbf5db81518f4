// From what a communicator asks of a rebuilder to what a regrouping is told: the part that every rebuilder does alike.
#pragma once

#include <utility>

#include "collectives/rebuild.h"
#include "rendezvous/regroup.h"

namespace rondo {

// Adds to `options` what the request says.
inline RegroupOptions Asked(const RebuildRequest& request, RegroupOptions options) {
  options.cause = request.failure ? request.failure->ToString() : "";
  options.lost = request.lost;
  options.rules = {
      .min_ranks = request.options.min_ranks, .max_ranks = request.options.max_ranks, .settle = request.options.settle};
  options.deadline = request.deadline;
  return options;
}

}  // namespace rondo
