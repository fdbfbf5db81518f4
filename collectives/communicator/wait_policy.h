// How long a waiting thread polls before it sleeps in the kernel.
#pragma once

#include <chrono>

#include "base/clock.h"

namespace rondo {

// A rank changes its policy in three cases. While it finds that other threads want its core (another job, a quota,
// ranks that count as another host's), it uses YieldsAtOnce(). If the transport moves bytes on the host's cores
// (Capabilities::moves_on_cores) and ranks outnumber these, the rank sleeps at once instead. If ranks share memory, a
// rank can see where the awaited ranks run: if one of them shares its core, it yields the core at once; if all run
// elsewhere, it first polls for some microseconds.
struct WaitPolicy {
  Duration spin{};   // polls, and yields the core only now and then
  Duration yield{};  // then yields the core after each poll
  // If every local rank has a core, spins and then yields. If ranks outnumber cores, yields, or sleeps at once if
  // `sleeps`.
  static WaitPolicy For(int local_ranks, int cores, bool sleeps = false);
  static constexpr WaitPolicy YieldsAtOnce() { return {.spin = {}, .yield = std::chrono::microseconds(2000)}; }
};

}  // namespace rondo
