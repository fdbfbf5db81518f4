// The proof of a schedule. The verifier is based on what a step means (step.h) and what a collective promises. It
// shares no code with the builder and trusts none of its output. All of this holds for every schedule that passes:
//
//   Lanes      Each send has its receive: the same transfer number and the same chunks, at the same place in the lane's
//              order on both ends.
//   Progress   There is a total order of all steps that contains all dependencies and every lane's order, even without
//              buffering: a send and its receive happen together, and the first send of a run waits for the
//              dependencies of the whole run. So the schedule ends on every transport, however little the transport
//              buffers and however late it releases sent bytes.
//   Races      If two steps of a rank touch the same chunk of the same buffer, and at least one writes, the later one
//              follows the earlier. Either a chain of dependencies through steps on that chunk orders them, or both
//              are in the same direction of the same lane, in this order. A send reads until its bytes are released.
//              Only a write-after-read dependency on the send itself waits for the release; the order in the lane
//              does not. So the result is the same as in the total order, whatever the timing of each byte.
//   Truth      Every dependency names an earlier step and is of the kind that it states. For example, a step with a
//              read-after-write dependency reads what the earlier step writes.
//   Result     all_reduce: every chunk of every rank's output is one and the same expression that holds each rank's
//              contribution exactly once. In every combination the lower rank's operand is on the left. Each
//              contribution is scaled once, before all else, if ScheduleKey says so. The result is finished once, when
//              it is complete. broadcast: every output is the root's value. barrier: no rank is done before it has
//              received signals, directly or through others, from every other rank. An out-of-place input is never
//              written.
//
// Not proved: that scratch is large enough, and that both ends map a chunk to the same elements. For each of these two,
// one pure function is responsible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "collectives/schedule/step.h"

namespace rondo {

// What the proof found out about the schedule, besides that it is right.
struct Proof {
  // The longest chain of messages if each rank sends one at a time and receives one at a time, in the order of its
  // steps: rounds as the papers count them. Consecutive transfers between two ranks count as one message, if the later
  // ones wait for nothing that the first did not wait for.
  std::uint32_t rounds = 0;
  std::uint32_t transfers = 0;           // the transfers of all ranks together
  std::uint32_t max_transfers_sent = 0;  // the maximum number of transfers that one rank sends
  std::uint32_t max_transfers_received = 0;
  // The maximum number of chunks that one rank sends. Divided by the schedule's chunks, it is a fraction of the vector.
  std::uint64_t max_chunks_sent = 0;
  std::uint64_t max_chunks_received = 0;
  std::uint32_t max_peers = 0;  // the maximum number of ranks to which one rank has lanes
  bool uses_scratch = false;
  bool in_rank_order = true;       // the operands of every chunk are in the order of ranks, so `op` need not commute
  bool left_fold = true;           // every chunk is ((0+1)+2)+..., so any two left folds give the same bits
  std::vector<std::string> order;  // for worlds up to kMaxPrintedWorld, by chunk of the window: "((0+1)+2)"
};

inline constexpr int kMaxPrintedWorld = 64;

// Returns the proof, or kInternal with a counter-example in words that names rank, step and chunk. With a `window`, the
// schedule must come from BuildWindow, and only the chunks of the window are checked.
Result<Proof> Verify(const Schedule& schedule, std::optional<ChunkRange> window = std::nullopt);

// For worlds too large for Verify. Checks all steps of one rank: every dependency names an earlier step, and no step
// waits for a transfer with a higher number than its own. If this holds for every rank, the order of transfer numbers
// is the total order whose existence Verify proves.
Status VerifyRankOrder(const RankSchedule& rank);

// Checks that the lane from `sender` to `receiver` carries the same transfers in the same order at both ends.
Status VerifyLane(const RankSchedule& sender, const RankSchedule& receiver);

}  // namespace rondo
