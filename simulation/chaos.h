// A story of chaos: a whole job on virtual time, drawn from one seed. Ranks run as processes do: they meet in a store,
// make communicators, call collectives, exchange messages, split, close; while links are slow and clogged, and
// processes are killed and stopped, connections cut, machines partitioned, frames spoilt, the store lost. Then
// everything is healed, and whoever is left must meet again, in a new generation, and go on. Half of the stories have
// checksums: there a turned bit anywhere in a frame must be told as damage, or have changed nothing.
//
// What must hold, whatever happens (the outcome has the first violation in words):
//   safety    a success has the right values, to the bit;
//             an error is typed, of a kind that the faults that fired explain, and names a rank that was at fault; or
//             one that was waited for, and has failed for its part; where no fault that could do harm fired, there is
//             no error; later calls return the first cause; nobody waits longer than its deadline and a second; nobody
//             writes into a buffer, nor beside it, once its call has returned;
//             where ranks go on without others (Communicator::Rebuild, in a third of the stories), each generation has
//             one roster, within that of the generation before; and where nothing but ranks was lost, all who are left
//             do go on.
//   liveness  healed, the ranks that live meet under the next generation within its deadline, and their sums are right.
//
// The same seed gives the same story on every machine.
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

// A fault of Rondo itself, put in on purpose: each must be caught.
enum class Negative : std::uint8_t {
  kNone,
  kEofIgnored,    // nobody is told that a connection has ended
  kNoDeadline,    // operations never time out
  kPayloadFlips,  // payload is spoilt, and nobody looks: neither checksums nor compared results
  kEarlyRelease,  // memory is said to be free while it is still to be read
  kTwoRosters,    // whoever writes the roster of the next generation takes its own for the one that stands
};
std::span<const Negative> AllNegatives();  // but kNone
std::string_view Name(Negative negative);  // "eof-ignored"

struct ChaosOptions {
  std::uint64_t seed = 1;
  std::optional<int> world_size;  // 1..kMostRanks; nullopt: drawn
  Negative negative = Negative::kNone;
  std::function<void(const std::string&)> trace;  // told the story line by line; null: nobody is
};
inline constexpr int kMostRanks = 16;

// What came of a fault in a story that has no other, so that there is no doubt whose doing it was.
struct LoneFault {
  // As in tables: "kill", "two_kills", "short_pause" (shorter than every deadline), "pause", "partition", "one_way",
  // "cut_lane", "cut_control", "flip_header", "flip_payload", "store_kill", "store_pause", "store_cut", "store_stall",
  // "foreign_client". Where there is no fault at all, "delays": links that are slow, clogged, and deliver in slices.
  std::string_view kind;
  std::uint64_t fired = 0;        // what the network and the store counted of it
  int unharmed = 0;               // survivors that did all they had to
  std::vector<ErrorCode> errors;  // of the others
  Duration told_after{};          // from the fault to the last of these errors, but for a rank's that was stopped
};

struct ChaosOutcome {
  std::string violation;  // empty: all is well
  int world_size = 0;
  int met = 0;         // ranks that met at first
  int unharmed = 0;    // of them, those that did all they had to
  int failed = 0;      // survivors that were told an error
  int corrupt = 0;     // of them, those that were told of damaged frames
  int named_next = 0;  // those that name whom they waited for, and not who was at fault
  int survivors = 0;
  int went_on = 0;  // of them, those that rebuilt and did all they then had to, before anything was healed
  int stopped = 0;  // those that could not
  std::uint64_t stalled_requests = 0;  // of the store
  std::uint64_t switches = 0;          // of fibers
  SimCounters counters;
  std::optional<LoneFault> lone;
  std::uint64_t trace_hash = 0;
};

ChaosOutcome RunChaos(FiberStacks& stacks, const ChaosOptions& options);

// The command line that tells it again.
std::string ReplayCommand(const ChaosOptions& options);

}  // namespace rondo::simulation
