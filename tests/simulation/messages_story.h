// One simulated job that exchanges messages: the real communicator of every rank, in one thread, on virtual time, from
// one seed. The seed draws ranks, link, limits, the messages, the order of calls, and whether and when a rank is
// killed.
//
// What must hold, whatever happens (the outcome has the first violation in words):
//   - every receive that ends with success has a whole message that it may take, in the order of its (sender, tag);
//   - without a kill everything succeeds;
//   - after a kill every operation of a survivor ends with success, or with an error that names the dead rank;
//   - nobody hangs: everything is over within the operations' timeout of virtual time.
#pragma once

#include <cstdint>
#include <string>

#include "transport/sim/sim.h"

namespace rondo {

struct MessagesOutcome {
  std::string violation;  // empty: all is well
  bool killed = false;    // the kill fired while somebody still worked
  int failed = 0;         // operations of survivors that ended with an error
  int received = 0;       // messages
  SimCounters counters;
  std::uint64_t trace_hash = 0;
};

MessagesOutcome RunMessagesStory(std::uint64_t seed);

}  // namespace rondo
