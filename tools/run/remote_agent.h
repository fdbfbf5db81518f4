// The agent of `rondo run` on another host. It starts ranks as the launcher asks and watches them. It ends them when
// the launcher has ended or the connection to it is lost. agent_words.h describes the protocol.
#pragma once

#include "base/clock.h"
#include "rendezvous/environment.h"

namespace rondo {

// Serves the launcher over stdin and stdout, and takes both away from the rest of the process. Returns the exit code
// after all ranks have ended and the launcher has no more to ask. REQUIRES: called from the main thread while no other
// thread runs, at most once per process, because it takes over the process's signals.
int RunAgent(const Environment& environment, const Clock& clock);

}  // namespace rondo
