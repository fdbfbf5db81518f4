// Collectives among ranks of one host through a shared segment (transport/shared_segment.h), without lanes or
// schedules.
//
// An operation is a row of rounds (rounds.h): in a round every rank writes its slot, publishes it, and reads the slots
// that concern it. Two slots per rank take turns:
//
//            rank 0   rank 1   rank 2
//   slots    [ x0 ]   [ x1 ]   [ x2 ]      written, then published by the number of the round
//               \        |        /
//   readers: (x0 op x1) op x2              the left fold, the same bits on every rank and as every other left fold
//
// Four strategies share these rounds; this class only chooses among them and goes from stage to stage:
//
//   slots.h         copy in, copy out: all that is short, and all that nothing else serves
//   relay.h         much longer reductions, among more than two ranks
//   single_copy.h   longer still, and most long collectives: from the peers' memory, where it can be mapped or read
//   device.h        memory of devices, by the devices
//
//   Start -> slots, round by round -------------------------------------------------------> end
//         -> opening round -> relay ---------------------------------> closing round -----> end
//         -> offers -> votes -> single copy -------------------------> closing round -----> end
//              \________\____ refused: slots or relay
//   StartOnDevices -> offers -> votes -> device work ----------------> closing round -----> end
//                                  \____ declined -----------------------------------------> end
//
// Equal counts only. Thread rule: the owner of the endpoint.
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
  // All arguments outlive it. REQUIRES: the shared segment is ready, world_size its ranks, two at least.
  IntranodePath(Rank rank, int world_size, SharedSegment& shared_segment, Mover& mover);

  static bool Serves(const OperationDescriptor& operation) { return !operation.varying; }

  // REQUIRES: Serves(start.operation), nothing runs. Cannot fail.
  Status Start(const PathStart& start) override;
  // As Start, but GPUs do the work, on their own memory. `peers`: this rank's GPU; null: it cannot take part. If the GPU
  // of any rank cannot take part, no rank does anything, and `declined` says so when the operation has ended.
  // `program`: the GPUs do nothing now; what they are to do is written there, and the caller must heed `declined`.
  // REQUIRES: ServesDevices(operation); this rank's memory may be read and written.
  bool ServesDevices(const OperationDescriptor& operation) const { return device_.Serves(operation); }
  void StartOnDevices(const PathStart& start, DevicePeers* peers, DeviceProgram* program = nullptr);
  bool declined() const { return device_.declined(); }
  // Whether some ranks share a GPU that serves them in time slices (DeviceStrategy).
  bool is_time_sliced() const { return device_.is_time_sliced(); }
  bool running() const { return stage_ != Stage::kIdle; }
  Result<Progress> Poll() override;
  bool HasNews() const override;
  bool MoverBusy() const override { return running() && moves_.IsBusy(); }
  void Drain() override;
  // Any thread. No result is made from what others read of this rank's memory from now on, ever. Part of Drain.
  void Withdraw() { segment_.Withdraw(); }
  const OperationDescriptor& operation() const override { return operation_.descriptor; }
  // How many operations have read the peers' memory.
  std::uint64_t single_copies() const { return single_copy_.operations(); }

  AwaitedRanks WhereAreAwaited() const override;
  // The core that this rank runs on now (Waiter::Core); negative: unknown.
  void RunsOn(int core);

  // The ranks that have not published what this rank waits for.
  std::vector<BlockedStep> Blocked() const override;
  bool WaitsFor(Rank peer) const override;
  std::optional<Engine::FailedLane> Failure() const override { return std::nullopt; }  // there are no lanes
  std::optional<Error> FindMismatchedPeer() override { return std::nullopt; }          // Poll finds it

 private:
  enum class Stage : std::uint8_t {
    kIdle,
    kSlots,         // rounds
    kRelayOpening,  // a round
    kCopyOffers,    // rounds: each rank advertises its memory, then each says whether it could map that of all
    kCopyVotes,
    kDeviceOffers,
    kDeviceVotes,
    kRelay,
    kRelayClosing,  // the last round, without payload
    kCopy,
    kDevice,
    kClosing,  // the last round, without payload
  };
  // Between rounds, a strategy goes on by itself.
  static bool IsBetweenRounds(Stage stage) {
    return stage == Stage::kRelay || stage == Stage::kCopy || stage == Stage::kDevice;
  }

  void SetOperation(const PathStart& start);
  void StartSlotsOrRelay();
  void BeginRound(Stage stage, SlotRounds::Wanted wanted) {
    stage_ = stage;
    rounds_.Begin(wanted);
  }
  // Goes on with the running round, and with what is between rounds. True: it has ended.
  Result<bool> PollRound(bool& moved);
  Result<Progress> PollBetweenRounds();
  // Goes to the stage after the round that has ended. True: the operation has ended.
  bool EndRound();
  void OnCopyOutcome(SingleCopyStrategy::Outcome outcome);
  // Writes this rank's slot.
  void Write();
  // A vote is one byte in the slot's first line.
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
  int core_ = -1;  // that this rank runs on
};

}  // namespace rondo
