// The agent of `rondo run` on another host: starts ranks there as the launcher asks, sees them through, and ends them
// when the launcher or the connection to it is gone (agent_words.h has what the two say).
#pragma once

#include "base/clock.h"
#include "rendezvous/environment.h"

namespace rondo {

// Talks over this process's stdin and stdout, which are then gone, until there is nobody left to talk to. The exit
// code. REQUIRES: called from the main thread while no other thread runs, once per process (it takes the process's
// signals).
int RunAgent(const Environment& environment, const Clock& clock);

}  // namespace rondo
