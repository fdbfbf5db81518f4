// How long a waiting thread polls before it sleeps in the kernel.
#pragma once

#include <chrono>

#include "base/clock.h"

namespace rondo {

// A rank changes its policy in these cases:
//   - It finds that its core is wanted by others (another job, a quota, ranks that count as another host's). Then it
//     uses YieldsAtOnce(). But if the transport moves bytes on the host's cores (Capabilities::moves_on_cores) and
//     ranks outnumber the cores, it sleeps at once.
//   - It shares memory with the ranks for which it waits, and so knows on which cores they run. If one of them runs on
//     the core of this rank, this rank yields the core at once. If all run on other cores, this rank first polls for
//     some microseconds.
struct WaitPolicy {
  Duration spin{};   // how long a thread polls and only rarely yields the core
  Duration yield{};  // how long it then yields the core after each poll
  // If every local rank has a core: spins, then yields. If ranks outnumber cores: sleeps at once if `sleeps`, otherwise
  // yields.
  static WaitPolicy For(int local_ranks, int cores, bool sleeps = false);
  static constexpr WaitPolicy YieldsAtOnce() { return {.spin = {}, .yield = std::chrono::microseconds(2000)}; }
};

}  // namespace rondo
