// The proof of a schedule. Knows what a step means (step.h) and what a collective promises; shares no code with the
// builder and believes nothing it says. Of every schedule that passes, all of this holds:
//
//   Lanes      Each send has its receive: the same transfer number and the same chunks, at the same place in the lane's
//              order on both ends.
//   Progress   One total order of all steps exists that contains all dependencies and every lane's order, with no
//              buffering at all: a send and its receive happen together, and the first send of a run waits for what
//              any of the run waits for. So the schedule ends on every transport, however little it holds and however
//              late it releases what was sent.
//   Races      Of any two steps of a rank that touch the same chunk of the same buffer, at least one writing, the later
//              one follows the earlier: by a chain of dependencies through steps on that chunk, or because the earlier
//              one stands before it in the same direction of the same lane. Reading by a send ends when its bytes are
//              released, so only a write-after-read dependency on the send itself ends it, a place in the lane does
//              not. So whatever the timing, byte by byte, the result is that of the total order.
//   Truth      Every dependency names an earlier step and is of its kind: it reads what that step writes, and so on.
//   Result     all_reduce: every chunk of every rank's output is one and the same expression that holds each rank's
//              contribution exactly once, the lower rank's operand on the left of every combination, scaled once first
//              if the key says so, and finished once, when complete. broadcast: it is the root's value. barrier: no
//              rank is done before it has heard, directly or not, from every other. An out-of-place input is never
//              written.
//
// Not proved: that scratch is big enough, or that both ends mean the same by a chunk; those are one pure function each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "collectives/schedule/step.h"

namespace rondo {

// What else the proof found out.
struct Proof {
  // The longest chain of messages, where a rank sends one at a time and receives one at a time, in its steps' order:
  // rounds as the papers count them. Transfers that follow each other at both their ends, and wait for nothing that the
  // first of them did not wait for, are one message.
  std::uint32_t rounds = 0;
  std::uint32_t transfers = 0;           // in all
  std::uint32_t max_transfers_sent = 0;  // by one rank
  std::uint32_t max_transfers_received = 0;
  std::uint64_t max_chunks_sent = 0;  // by one rank; over the schedule's chunks, the fraction of the vector
  std::uint64_t max_chunks_received = 0;
  std::uint32_t max_peers = 0;  // that one rank has lanes to
  bool uses_scratch = false;
  bool in_rank_order = true;       // the operands of every chunk stand in the ranks' order, so `op` need not commute
  bool left_fold = true;           // every chunk is ((0+1)+2)+..., so any two left folds give the same bits
  std::vector<std::string> order;  // by chunk of the window, for worlds up to kMaxPrintedWorld: "((0+1)+2)"
};

inline constexpr int kMaxPrintedWorld = 64;

// The proof, or kInternal with a counter-example in words that name rank, step and chunk. With a `window`, the schedule
// is one of BuildWindow and only those chunks must be served.
Result<Proof> Verify(const Schedule& schedule, std::optional<ChunkRange> window = std::nullopt);

// For worlds too large to hold: of one rank's whole list alone, that every dependency is earlier, and that in the order
// of the transfers' numbers nothing waits for a later one. If it holds for every rank, the order of the numbers is the
// total order that Verify asks for.
Status VerifyRankOrder(const RankSchedule& rank);

// That the lane from `sender` to `receiver` carries the same transfers in the same order at both ends.
Status VerifyLane(const RankSchedule& sender, const RankSchedule& receiver);

}  // namespace rondo
