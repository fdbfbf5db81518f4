// The parts of the proof, one file each, called by verify.cc. Each part assumes what the parts before it proved.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "collectives/schedule/verify.h"

namespace rondo::verify {

// Identifies a step of the whole schedule.
struct Place {
  Rank rank = 0;
  std::uint32_t step = 0;
};

// What happens at one moment: a send together with its receive, or a local step (a copy, a reduce) alone.
struct Event {
  Place first;   // the send, or the local step
  Place second;  // the receive; for a local step: equal to first
  bool is_transfer = false;
};

template <typename... Args>
tl::unexpected<Error> CounterExample(fmt::format_string<Args...> text, Args&&... args) {
  return Fail(ErrorCode::kInternal, "counter-example: {}", fmt::format(text, std::forward<Args>(args)...));
}

// "rank 2 step 5 (send output[1] to 3 transfer 7)"
std::string Describe(const Schedule& schedule, Place place);

inline bool Sends(const Step& step) { return step.kind == StepKind::kSend; }
inline bool Receives(const Step& step) { return step.kind == StepKind::kRecv || step.kind == StepKind::kRecvReduce; }
inline bool Reads(const Step& step, BufferId buffer) {
  if (step.kind == StepKind::kRecv || step.chunks.count == 0) return false;
  return step.source == buffer || (step.kind == StepKind::kReduce && step.destination == buffer);
}
inline bool Writes(const Step& step, BufferId buffer) {
  return step.kind != StepKind::kSend && step.chunks.count > 0 && step.destination == buffer;
}

// Checks each step and each dependency by itself.
Status CheckSteps(const Schedule& schedule, ChunkRange window);
// Lanes: pairs the steps into events. The events of one lane are adjacent in the result, in the lane's order.
Result<std::vector<Event>> PairSteps(const Schedule& schedule);
// Progress: returns the events in one possible order.
Result<std::vector<Event>> OrderEvents(const Schedule& schedule, std::vector<Event> events);
// Races: checks one rank.
Status CheckRaces(const Schedule& schedule, Rank rank, ChunkRange window);
// Result: runs the ordered events on symbols instead of numbers.
Status CheckValues(const Schedule& schedule, const std::vector<Event>& ordered, ChunkRange window, Proof& proof);
Status CheckBarrier(const Schedule& schedule, const std::vector<Event>& ordered);

}  // namespace rondo::verify
