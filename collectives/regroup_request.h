// Converts a communicator's RebuildRequest to RegroupOptions. All implementations of Rebuilder share this code.
#pragma once

#include <utility>

#include "collectives/rebuild.h"
#include "rendezvous/regroup.h"

namespace rondo {

// Adds the fields of the request to `options`.
inline RegroupOptions Asked(const RebuildRequest& request, RegroupOptions options) {
  options.cause = request.failure ? request.failure->ToString() : "";
  options.lost = request.lost;
  options.rules = {
      .min_ranks = request.options.min_ranks, .max_ranks = request.options.max_ranks, .settle = request.options.settle};
  options.deadline = request.deadline;
  return options;
}

}  // namespace rondo
