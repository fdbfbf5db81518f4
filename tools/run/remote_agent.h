// The agent of `rondo run` on another host. The agent starts the ranks that the launcher requests, and watches them. It
// ends these ranks when the launcher has ended, or when the connection to the launcher is lost. agent_words.h describes
// the protocol.
#pragma once

#include "base/clock.h"
#include "rendezvous/environment.h"

namespace rondo {

// Serves the launcher over stdin and stdout. The rest of the process cannot use these two any more. Returns the exit
// code after all ranks have ended and the launcher has no further requests. REQUIRES: called from the main thread while
// no other thread runs, at most once per process, because it takes over the process's signals.
int RunAgent(const Environment& environment, const Clock& clock);

}  // namespace rondo
