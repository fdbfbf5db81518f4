// Simulates one job. The real engines and communicators of all ranks run in one thread, on virtual time. The seed
// determines everything: ranks, link, buffers, operations, and whether and when a rank is killed.
//
// Guarantees that are checked (Scenario::Run returns the first violation as text, or nothing):
//   - every operation that succeeds has correct values in every element;
//   - without a kill every operation succeeds, and so does Close;
//   - after a kill every survivor ends with success, or with an error that names the dead rank;
//   - after a survivor has failed, each of its later calls returns the same first cause;
//   - no rank hangs: everything ends within the operations' timeout, in virtual time.
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

struct ScenarioOptions {
  std::uint64_t seed = 1;
  std::optional<bool> kill;  // nullopt: the seed decides
};

struct ScenarioOutcome {
  std::string violation;  // empty: no violation
  bool killed = false;    // the kill happened while some rank was still working
  int failed_ranks = 0;   // survivors that ended with an error
  SimCounters counters;
  std::uint64_t trace_hash = 0;
};

ScenarioOutcome RunScenario(const ScenarioOptions& options);

}  // namespace rondo
