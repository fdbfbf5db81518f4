// How a thread that waits spends its time before it sleeps in the kernel.
#pragma once

#include <chrono>

#include "base/clock.h"

namespace rondo {

// While a waiting thread finds that others want its core (another job, a quota, ranks that count as another host's), it
// takes YieldsAtOnce() whatever it was given. A rank that shares cores with a transport that moves bytes on them
// (Capabilities::moves_on_cores) sleeps at once instead. Where ranks share memory a rank knows more: it gives the core
// away at once to one that it waits for and that runs there, and polls for some microseconds first where all those run
// elsewhere.
struct WaitPolicy {
  Duration spin{};   // polling only
  Duration yield{};  // after that, polling and giving the core away in between
  // Spins, and then yields, where every local rank has a core; yields where ranks outnumber cores.
  static WaitPolicy For(int local_ranks, int cores, bool sleeps = false);
  static constexpr WaitPolicy YieldsAtOnce() { return {.spin = {}, .yield = std::chrono::microseconds(2000)}; }
};

}  // namespace rondo
