// Collectives among ranks of one host through a shared segment (transport/shared_segment.h), without lanes or
// schedules.
//
// An operation is a sequence of rounds (rounds.h): in a round every rank writes its slot, publishes it, and reads the
// slots that it needs. Each rank has two slots and uses them alternately:
//
//            rank 0   rank 1   rank 2
//   slots    [ x0 ]   [ x1 ]   [ x2 ]      written, then published by the number of the round
//               \        |        /
//   readers: (x0 op x1) op x2              a left fold: every rank gets the same bits, as from any other left fold
//
// Four strategies share these rounds. This class selects the strategy and moves the operation from stage to stage:
//
//   slots.h         copy in, copy out: short operations, and those that no other strategy supports
//   relay.h         long reductions among more than two ranks
//   single_copy.h   most long collectives: each rank reads its peers' memory, if that can be mapped or read by CMA
//   device.h        device memory: the devices do the work
//
//   Start -> slots, round by round -------------------------------------------------------> end
//         -> opening round -> relay ---------------------------------> closing round -----> end
//         -> offers -> votes -> single copy -------------------------> closing round -----> end
//              \________\____ refused: slots or relay
//   StartOnDevices -> offers -> votes -> device work ----------------> closing round -----> end
//                                  \____ declined -----------------------------------------> end
//
// The path supports only operations whose blocks have equal counts. Thread rule: the owner of the endpoint.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "collectives/engine/blocked_step.h"
#include "collectives/engine/device.h"
#include "collectives/engine/engine.h"
#include "collectives/engine/frame.h"
#include "collectives/engine/mover.h"
#include "collectives/engine/operation_path.h"
#include "collectives/intranode/device.h"
#include "collectives/intranode/move_streams.h"
#include "collectives/intranode/operation.h"
#include "collectives/intranode/relay.h"
#include "collectives/intranode/rounds.h"
#include "collectives/intranode/segment.h"
#include "collectives/intranode/single_copy.h"
#include "collectives/intranode/slots.h"
#include "transport/shared_segment.h"

namespace rondo {

class IntranodePath final : public OperationPath {
 public:
  // All arguments must outlive this object. REQUIRES: the shared segment is ready; world_size >= 2.
  IntranodePath(Rank rank, int world_size, SharedSegment& shared_segment, Mover& mover);

  static bool Serves(const OperationDescriptor& operation) { return !operation.varying; }

  // REQUIRES: Serves(start.operation); no operation is running. Cannot fail.
  Status Start(const PathStart& start) override;
  // StartOnDevices is like Start, but GPUs do the work, on their own memory. `peers`: this rank's GPU; null if it
  // cannot take part. If the GPU of any rank cannot take part, the operation ends without an effect on any rank, and
  // declined() is true. `program`: if not null, the GPUs do nothing now; the work is recorded in `program`, and the
  // caller must check declined() before it uses the program. REQUIRES: ServesDevices(operation); the GPUs may now use
  // this rank's memory.
  bool ServesDevices(const OperationDescriptor& operation) const { return device_.Serves(operation); }
  void StartOnDevices(const PathStart& start, DevicePeers* peers, DeviceProgram* program = nullptr);
  bool declined() const { return device_.declined(); }
  // Whether some ranks share a GPU by time slicing (DeviceStrategy).
  bool is_time_sliced() const { return device_.is_time_sliced(); }
  bool running() const { return stage_ != Stage::kIdle; }
  Result<Progress> Poll() override;
  bool HasNews() const override;
  bool MoverBusy() const override { return running() && moves_.IsBusy(); }
  void Drain() override;
  // Any thread. Peers discard what they read from this rank's memory from now on: no result contains it. Drain calls
  // this.
  void Withdraw() { segment_.Withdraw(); }
  const OperationDescriptor& operation() const override { return operation_.descriptor; }
  // How many operations have used the single-copy strategy.
  std::uint64_t single_copies() const { return single_copy_.operations(); }

  AwaitedRanks WhereAreAwaited() const override;
  // Publishes the core that this rank runs on now (Waiter::Core); negative: unknown.
  void RunsOn(int core);

  // One entry for each rank that has not published data that this rank waits for.
  std::vector<BlockedStep> Blocked() const override;
  bool WaitsFor(Rank peer) const override;
  std::optional<Engine::FailedLane> Failure() const override { return std::nullopt; }  // there are no lanes
  std::optional<Error> FindMismatchedPeer() override { return std::nullopt; }          // Poll reports mismatches

 private:
  enum class Stage : std::uint8_t {
    kIdle,
    kSlots,         // all rounds of the slots strategy
    kRelayOpening,  // one round
    kCopyOffers,    // one round: each rank advertises its memory
    kCopyVotes,     // one round: each rank says whether it has mapped the memory of all ranks
    kDeviceOffers,  // this and kDeviceVotes: like kCopyOffers and kCopyVotes, but for device memory
    kDeviceVotes,
    kRelay,         // between rounds
    kRelayClosing,  // the final round, without payload
    kCopy,          // between rounds
    kDevice,        // between rounds
    kClosing,       // the final round, without payload
  };
  // Whether the stage is between rounds: the strategy then works without rounds.
  static bool IsBetweenRounds(Stage stage) {
    return stage == Stage::kRelay || stage == Stage::kCopy || stage == Stage::kDevice;
  }

  void SetOperation(const PathStart& start);
  void StartSlotsOrRelay();
  void BeginRound(Stage stage, SlotRounds::Wanted wanted) {
    stage_ = stage;
    rounds_.Begin(wanted);
  }
  // Advances the running round. True: the round has ended.
  Result<bool> PollRound(bool& moved);
  // Advances the strategy between rounds.
  Result<Progress> PollBetweenRounds();
  // Begins the stage after the round that has ended. True: the operation has ended.
  bool EndRound();
  void OnCopyOutcome(SingleCopyStrategy::Outcome outcome);
  // Writes this rank's slot.
  void Write();
  // Writes this rank's vote, which is one byte in the slot's first line.
  void WriteVote(bool vote);
  bool AllVotedYes() const;
  std::uint64_t BytesDone() const;

  const IntranodeSegment segment_;
  IntranodeOperation operation_;
  MoveStreams moves_;
  SlotRounds rounds_;
  WindowCounts counts_;
  SlotsStrategy slots_;
  RelayStrategy relay_;
  SingleCopyStrategy single_copy_;
  DeviceStrategy device_;
  Stage stage_ = Stage::kIdle;
  int core_ = -1;  // the core that this rank runs on; negative: unknown
};

}  // namespace rondo
