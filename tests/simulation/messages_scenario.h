// Simulates one job that exchanges messages. The real communicators of all ranks run in one thread, on virtual time.
// The seed determines ranks, link, limits, the messages, the order of calls, and whether and when a rank is killed.
//
// Guarantees that are checked (the outcome has the first violation as text):
//   - every receive that succeeds gets a whole message that matches it, and messages with the same sender and tag are
//     received in the order in which they were sent;
//   - without a kill everything succeeds;
//   - after a kill every operation of a survivor succeeds, or fails with an error that names the dead rank;
//   - no rank hangs: everything ends within the operations' timeout, in virtual time.
#pragma once

#include <cstdint>
#include <string>

#include "transport/sim/sim.h"

namespace rondo {

struct MessagesOutcome {
  std::string violation;  // empty: no violation
  bool killed = false;    // the kill happened while some rank was still working
  int failed = 0;         // operations of survivors that ended with an error
  int received = 0;       // messages that were received
  SimCounters counters;
  std::uint64_t trace_hash = 0;
};

MessagesOutcome RunMessagesScenario(std::uint64_t seed);

}  // namespace rondo
