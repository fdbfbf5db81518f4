// A scenario: a whole simulated job in virtual time, drawn at random from one seed. Simulated ranks act like processes:
// they have a rendezvous in a store, make communicators, call collectives, exchange messages, split and close.
// Meanwhile links are slow or blocked, processes are killed or stopped, connections are cut, the network is
// partitioned, frames are corrupted, and the store is lost. Afterwards all faults are healed, and the remaining ranks
// must have a rendezvous again, in a new generation, and continue. Half of the scenarios have checksums: then a flipped
// bit anywhere in a frame must be reported as corruption or must have changed nothing.
//
// These properties must hold in every scenario; the outcome describes the first violation.
// Safety:
// - calls that succeed give the right values, bit for bit;
// - the faults that fired explain the code of every error;
// - an error names a rank that was at fault, or a rank that was waited for and has failed itself;
// - if no harmful fault fired, there is no error;
// - later calls return the first cause;
// - no rank waits longer than its deadline plus one second;
// - no rank writes into a buffer, or next to it, after the call that uses the buffer has returned;
// - if ranks continue without others (Communicator::Rebuild, in a third of the scenarios), each generation has one
//   roster, a subset of the roster of the generation before;
// - if only ranks were lost, all remaining ranks continue.
// Liveness:
// - after all faults are healed, the living ranks succeed in a rendezvous in the next generation, within its deadline,
//   and their sums are right.
//
// The same seed gives the same scenario on every machine.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "simulation/fibers.h"
#include "transport/sim/sim.h"

namespace rondo::simulation {

// Defects of Rondo that are injected on purpose. The checks must find every one of them.
enum class Negative : std::uint8_t {
  kNone,
  kEofIgnored,    // ranks get no notice that a connection has ended
  kNoDeadline,    // operations never time out
  kPayloadFlips,  // payload is corrupted while neither checksums nor comparison of results are on
  kEarlyRelease,  // memory is reported free while the transport still reads it
  kTwoRosters,    // a rank overwrites the next generation's roster, even if other ranks agreed on another one
};
std::span<const Negative> AllNegatives();  // all except kNone
std::string_view Name(Negative negative);  // "eof-ignored"

struct ChaosOptions {
  std::uint64_t seed = 1;
  std::optional<int> world_size;  // 1..kMaxRanks; nullopt: drawn
  Negative negative = Negative::kNone;
  std::function<void(const std::string&)> trace;  // called with each line of the scenario's log; may be null
};
inline constexpr int kMaxRanks = 16;

// The effects of a fault in a scenario without other faults, so no other fault can have caused them.
struct LoneFault {
  // The fault's name in tables: "kill", "two_kills", "short_pause" (shorter than every deadline), "pause", "partition",
  // "one_way", "cut_lane", "cut_control", "flip_header", "flip_payload", "store_kill", "store_pause", "store_cut",
  // "store_stall", "foreign_client". "delays" means that there is no fault, but links are slow or blocked and deliver
  // in slices.
  std::string_view kind;
  std::uint64_t fired = 0;        // how often the fault took effect, as counted by the network and the store
  int unharmed = 0;               // surviving ranks that completed everything
  std::vector<ErrorCode> errors;  // errors of the survivors that did not complete everything
  Duration last_error_after{};    // time from the fault to the latest error of a survivor that was never stopped
};

struct ChaosOutcome {
  std::string violation;  // empty: no violation
  int world_size = 0;
  int connected = 0;   // ranks that connected at the beginning
  int unharmed = 0;    // connected ranks that completed everything
  int failed = 0;      // survivors that got an error
  int corrupt = 0;     // survivors whose error reports corrupted frames
  int named_next = 0;  // survivors whose error names the rank that they waited for, not the rank at fault
  int survivors = 0;
  int went_on = 0;  // survivors that rebuilt and completed everything afterwards, before the faults were healed
  int stopped = 0;  // survivors whose Rebuild failed
  std::uint64_t stalled_requests = 0;  // requests that the store delayed
  std::uint64_t switches = 0;          // switches between fibers
  SimCounters counters;
  std::optional<LoneFault> lone;
  std::uint64_t trace_hash = 0;
};

ChaosOutcome RunChaos(FiberStacks& stacks, const ChaosOptions& options);

// The command line that repeats the scenario.
std::string ReplayCommand(const ChaosOptions& options);

}  // namespace rondo::simulation
