// One simulated job: the real engine and communicator of every rank, in one thread, on virtual time, from one seed. The
// seed draws everything: ranks, link, buffers, operations, and whether and when a rank is killed.
//
// What must hold, whatever happens (Story::Run returns the first violation in words, or nothing):
//   - every operation that returns success has the right values in every element;
//   - without a kill every operation succeeds, and so does Close;
//   - after a kill every survivor ends with success, or with an error that names the dead rank;
//   - a survivor that failed gives the same first cause to every later call;
//   - nobody hangs: everything is over within the operations' timeout of virtual time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "collectives/communicator.h"
#include "transport/sim/sim.h"

namespace rondo {

struct StoryOptions {
  std::uint64_t seed = 1;
  std::optional<bool> kill;  // nullopt: drawn
};

struct StoryOutcome {
  std::string violation;  // empty: all is well
  bool killed = false;    // the kill fired while somebody still worked
  int failed_ranks = 0;   // survivors that ended with an error
  SimCounters counters;
  std::uint64_t trace_hash = 0;
};

StoryOutcome RunStory(const StoryOptions& options);

}  // namespace rondo
