// Collectives among ranks of one host through a board (transport/board.h), without lanes or schedules: what a rank has
// for others it writes into a slot of its own, once, and they read it there.
//
// An operation is a row of turns. In a turn every rank writes its slot, publishes it, and reads the slots that concern
// it. Two slots per rank take turns:
//
//            rank 0   rank 1   rank 2
//   slots    [ x0 ]   [ x1 ]   [ x2 ]      written, then published by the number of the turn
//               \        |        /
//   readers: (x0 op x1) op x2              the left fold, the same bits on every rank and as every other left fold
//
// A rank writes its slot for turn t only when every rank has published its one for turn t - 1. So each has ended turn
// t - 2, whose slot is overwritten now; and nobody is ever more than a turn ahead.
//
//   barrier                             one turn, nothing in it
//   all_reduce, reduce, short           one turn: everyone folds all slots (reduce: the root does)
//   all_reduce, reduce, longer          windows of two turns. First every rank folds its own share of the window into
//                                       its other slot; then everyone (the root) takes the shares together
//   the same, much longer               a relay (board_relay.cc)
//   longer still, for the most part     straight from the peers' memory, where it can be read (board_pull.cc)
//   on memory of devices                as that, by the devices (board_devices.cc)
//   all_gather, gather, broadcast       a window a turn, as large as a slot
//   reduce_scatter, scatter, all_to_all a window a turn, in which every rank finds a piece of its own
//
// The large ones so move through slots that stay in the second-level caches: of a vector of S bytes among n ranks,
// all_reduce by shares copies (n-1)/n S in, folds (n-1)/n S and copies S out; a relay folds S and copies S out.
//
//   Slot::turn   stored by the slot's rank, last: release publishes descriptor and payload to whoever loads it with
//                acquire. (That who publishes then looks for sleepers is Board::RingSleepers's to order.)
//                Reading a slot of turn t - 2 comes before storing turn t - 1 with release; who overwrites it has
//                loaded that with acquire.
//
// A slot carries the operation's descriptor, as every frame does, so that ranks that disagree are told in words.
//
// Equal counts only. Thread rule: the owner of the endpoint.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "collectives/engine/device.h"
#include "collectives/engine/engine.h"
#include "collectives/engine/frame.h"
#include "collectives/engine/mover.h"
#include "transport/board.h"

namespace rondo {

class BoardPath {
 public:
  // All arguments outlive it. REQUIRES: the board is ready, world_size its ranks, two at least.
  BoardPath(Rank rank, int world_size, Board& board, Mover& mover);

  static bool Serves(const OperationDescriptor& operation) { return !operation.varying; }

  // As Engine's. REQUIRES: Serves(operation), nothing runs.
  void Start(const OperationDescriptor& operation, const OperationBuffers& buffers, double scale, bool in_place);
  // The same on memory of devices, by which this rank's does its part; null: it can do none. That may turn out to be
  // impossible for all of them: then `declined` says so when the operation has ended, and nothing has been done.
  // `program`: nothing is done but written there, and `declined` is then to be heeded by whoever wants it done.
  // REQUIRES: ServesDevices(operation); this rank's memory may be read and written.
  bool ServesDevices(const OperationDescriptor& operation) const;
  void StartOnDevices(const OperationDescriptor& operation, const OperationBuffers& buffers, double scale,
                      bool in_place, DevicePeers* peers, DeviceProgram* program = nullptr);
  bool is_on_devices() const { return running_ && on_devices_; }
  bool declined() const { return declined_; }
  // Whether there are ranks whose work takes turns on a device, as far as operations on devices have shown: from the
  // first one on, and alike on all ranks.
  bool devices_take_turns() const { return devices_take_turns_.value_or(false); }
  bool running() const { return running_; }
  Result<Progress> Poll();
  // For a sleeper's second look: whether Poll could go on.
  bool HasNews() const;
  bool MoverBusy() const;
  void Drain();
  // Any thread, for good: nothing that others read of this rank's memory from now on makes a result. Part of Drain.
  void Withdraw();
  const OperationDescriptor& operation() const { return operation_; }
  // How many operations have read memory where it lay.
  std::uint64_t pulls() const { return all_pulls_; }

  // Where those are whom this rank waits for in a turn, as far as they have said. Who shares this rank's core can go on
  // only when that is given away; for the others it is enough to look.
  enum class Awaited : std::uint8_t { kUnknown, kHere, kElsewhere };
  Awaited WhereAreAwaited() const;
  // The core that this rank runs on now (Waiter::Core).
  void RunsOn(int core);

  // For the slow path: who has not published what is waited for.
  std::vector<Standing> Waiting() const;
  bool WaitsFor(Rank peer) const;

 private:
  static constexpr std::size_t kInlineBytes = 32;
  // The first line of a slot; what does not fit there follows it, all of it, on lines of its own.
  struct alignas(kLineBytes) Slot {
    std::atomic<std::uint64_t> turn;
    std::array<std::byte, kDescriptorBytes> descriptor;
    std::array<std::byte, kInlineBytes> inlined;
  };
  static_assert(sizeof(Slot) == kLineBytes);
  // Behind a part's slots (board_relay.cc, board_pull.cc).
  struct Relay {
    alignas(kLineBytes) std::atomic<std::uint64_t> folded;
    alignas(kLineBytes) std::atomic<std::uint64_t> copied;
    std::atomic<bool> withdrawn;     // for good: its memory is its user's again
    std::atomic<std::int32_t> core;  // 1 + the one its rank ran on when it looked last; 0: not known
  };

  // What a turn is for.
  enum class Stage : std::uint8_t {
    kShow,  // each where its memory lies
    kVote,  // each whether it could map all of that
    kMain,
  };
  // A rank's memory: an address in its process and, where that is mapped, one here.
  struct Place {
    std::uint64_t there = 0;
    const std::byte* here = nullptr;
  };
  // What a rank lends in a pull, and the piece of it that this rank copies.
  struct Lent {
    Place input, output;
    std::uint64_t from = 0, to = 0, bytes = 0;
    std::uint64_t taken = 0;  // windows of the piece
  };

  // The mover's streams.
  static constexpr std::uint32_t kWrites = 0, kCollects = 1;

  // A piece of a vector or block, in bytes.
  struct Range {
    std::uint64_t begin = 0, bytes = 0;
    std::uint64_t end() const { return begin + bytes; }
  };

  // ---- turns (board_path.cc) ----
  Slot& SlotOf(Rank rank, std::uint64_t turn) const {
    const std::size_t place = (turn % 2) * (sizeof(Slot) + slot_bytes_);
    return *reinterpret_cast<Slot*>(parts_[static_cast<std::size_t>(rank)] + place);
  }
  std::byte* Payload(Rank rank, std::uint64_t turn) const {
    Slot& slot = SlotOf(rank, turn);
    const bool in_line = in_line_ || (stage_ != Stage::kMain && !on_devices_);
    return in_line ? slot.inlined.data() : reinterpret_cast<std::byte*>(&slot) + sizeof(Slot);
  }
  Result<bool> MayWrite();
  void Publish();
  void FetchNextSlot();
  Result<bool> CollectArrived(bool& moved);
  // Why what `rank` has published is not of this turn.
  Error Misfit(Rank rank, const Slot& slot) const;
  std::uint64_t BytesDone() const;
  Error Disagreement(Rank peer, const OperationDescriptor& own, const OperationDescriptor& theirs) const;

  // ---- what moves in them (board_moves.cc) ----
  void NextTurn();
  void CutIntoTurns();
  bool Relays() const;
  void CutIntoRelay();
  void Write();
  // Whose slots this rank wants in a turn.
  enum class Wanted : std::uint8_t { kAll, kRoot, kNobody };
  Wanted WantedInTurn() const;
  bool Needs(Rank rank) const {
    return wanted_ == Wanted::kAll || (wanted_ == Wanted::kRoot && rank == operation_.root);
  }
  void Collect(Rank rank);
  void CollectShare();
  void Contribute(std::byte* slot, const std::byte* source, std::uint64_t bytes);
  void Fold(Rank rank, std::byte* destination, const std::byte* first, const std::byte* next, std::uint64_t bytes);
  // The first turn of a window of two: shares are folded when all have come, because that overwrites the other slot.
  bool is_share_turn() const { return stage_ == Stage::kMain && two_turns_ && index_ % 2 == 0; }
  Range Window() const;                                         // of this turn, in the vector or block
  Range ShareOf(Rank rank, const Range& window) const;          // two turns: the part of the window that `rank` folds
  std::uint64_t PieceAt(Rank rank, const Range& window) const;  // where a rank's piece lies in a slot
  bool OwnIsInSlot() const;                                     // and not only in the user's memory
  std::uint64_t BlockAt(Rank rank) const { return static_cast<std::uint64_t>(rank) * bytes_; }
  // ---- the relay (board_relay.cc) ----
  Relay& RelayOf(Rank rank) const {
    return *reinterpret_cast<Relay*>(parts_[static_cast<std::size_t>(rank)] + 2 * (sizeof(Slot) + slot_bytes_));
  }
  Range RelayWindow(std::uint64_t window) const;
  std::byte* RelaySlot(std::uint64_t window) const;
  std::uint64_t relay_slots() const { return 2 * static_cast<std::uint64_t>(world_size_); }
  std::uint64_t FoldedBy(Rank rank) const;
  std::uint64_t CopiedBy(Rank rank) const;
  std::uint64_t MayFold() const;
  std::uint64_t MayCopy() const;
  bool Copies(Rank rank) const;
  void BeginRelay();
  Progress PollRelay();
  void FoldWindow(std::uint64_t number);
  bool RelayHasNews() const;
  Rank FirstNotToHaveFolded(std::uint64_t window) const;
  bool RelayWaitsFor(Rank peer) const;

  // ---- others' memory (board_pull.cc) ----
  bool MayPull() const;
  bool PaysToRead() const;
  std::uint64_t BytesOfAll() const { return operation_.BytesOfAll(world_size_); }
  bool LendsResult() const { return operation_.collective == Collective::kAllReduce; }
  std::uint64_t LentBytes(Rank rank) const;
  const std::byte* LentInput() const;
  void WritePrelude();
  void EndPrelude();
  void BeginPull(bool mapped);
  void ChoosePieces();
  Range PullWindow(const Range& all, std::uint64_t window) const;
  Result<Progress> PollPull();
  Result<bool> FoldOn();
  Result<std::uint64_t> TakeOn();
  Status Read(Rank rank, const Place& place, std::uint64_t at, std::byte* destination, std::uint64_t bytes);
  std::uint64_t MayTake(Rank rank) const;
  bool HasWithdrawn(Rank rank) const;
  bool AnyHasWithdrawn() const;
  bool PullHasNews() const;
  bool PullWaitsFor(Rank peer) const;
  std::uint64_t PulledBytes() const;

  // ---- memory of devices (board_devices.cc) ----
  struct ShownOnDevice;
  void ShowOnDevice();
  bool ShowMeetingPlace(ShownOnDevice& shown);
  void FindMeetingPlace(const ShownOnDevice& shown);
  void FindOnDevices();
  bool AnyTakeTurns() const;
  void BeginOnDevices();
  Result<Progress> PollOnDevices();
  Status FoldOnDevice();
  Result<bool> TakeOnDevices();

  const std::byte* Source() const { return in_place_ ? buffers_.output : buffers_.input; }
  void Submit(std::uint32_t stream, const Move& move);
  // Whether all that was submitted is done.
  bool HasMoved(std::uint32_t stream) {
    if (moved_[stream] < submitted_[stream]) moved_[stream] = mover_.Done(stream);
    return moved_[stream] >= submitted_[stream];
  }
  void Copy(std::uint32_t stream, std::byte* destination, const std::byte* source, std::uint64_t bytes);
  void CopyOut(std::byte* destination, const std::byte* source, std::uint64_t bytes);

  const Rank rank_;
  const int world_size_;
  Board& board_;
  Mover& mover_;
  std::uint64_t slot_bytes_ = 0;         // of payload
  std::uint64_t piece_bytes_ = 0;        // of a slot that holds one for each rank
  std::uint64_t fold_by_all_bytes_ = 0;  // up to which all_reduce takes one turn
  std::uint64_t relay_window_bytes_ = 0;
  const std::uint64_t past_caches_from_bytes_;
  std::vector<std::byte*> parts_;     // by rank
  std::vector<std::uint64_t> known_;  // by rank: the latest turn seen of it
  std::uint64_t turn_ = 0;            // the running one, or the last; over all operations
  int core_ = -1;                     // that this rank runs on; negative: not known

  bool running_ = false;
  OperationDescriptor operation_;
  std::array<std::byte, kDescriptorBytes> descriptor_;
  std::array<std::byte, kDescriptorBytes> last_descriptor_{};  // that was published last
  OperationBuffers buffers_;
  bool in_place_ = false;
  bool scales_ = false;   // this rank's contribution, before it is reduced
  bool divides_ = false;  // the result

  std::uint64_t bytes_ = 0;         // of the vector, or of a block
  std::uint64_t window_bytes_ = 0;  // of it, per window
  std::uint64_t turns_ = 1;         // of the operation
  bool two_turns_ = false;          // per window
  bool in_line_ = false;            // what moves fits the slots' first lines
  bool past_caches_ = false;        // results go straight to memory

  // Of a relay, between its two turns; a pull has some of it.
  bool relays_ = false;
  bool in_relay_ = false;
  std::uint64_t windows_ = 0;
  std::uint64_t relay_begin_ = 0;  // the windows of all relays before
  std::uint64_t relay_folded_ = 0;
  std::uint64_t relay_copied_ = 0;
  bool fold_submitted_ = false;
  bool copy_submitted_ = false;

  // Of a pull, before its closing turn.
  bool may_read_ = true;   // all ranks can, as far as they have told each other
  bool can_read_ = false;  // what is lent
  bool can_map_ = false;   // all that is lent, as far as this rank is concerned
  bool pulls_ = false;
  bool in_pull_ = false;
  bool maps_ = false;            // else it reads
  bool shares_ = false;          // each folds its own, then all copy the others'
  std::vector<Lent> lent_;       // by rank
  Range fold_;                   // what this rank folds, in its result
  std::uint64_t fold_from_ = 0;  // where that begins in what ranks lend
  Rank operand_ = kNoRank;       // of the window that is folded: whose comes next
  Rank lost_ = kNoRank;          // whose memory has gone; why will be known by other ways
  std::uint64_t all_pulls_ = 0;

  // Of an operation on devices, which is a pull else.
  bool on_devices_ = false;
  bool declined_ = false;
  std::optional<bool> devices_take_turns_;
  DevicePeers* peers_ = nullptr;
  DeviceProgram* program_ = nullptr;
  double scale_ = 1.0;             // of a pre-multiplied sum: this rank's
  std::vector<double> scales_of_;  // and each rank's
  std::uint64_t begun_ = 0;        // of `peers_`, as far as it is waited for

  // The running turn.
  Stage stage_ = Stage::kMain;
  std::uint64_t index_ = 0;  // within the operation
  bool writing_ = false;     // its moves are submitted
  bool written_ = false;     // it is published
  Wanted wanted_ = Wanted::kAll;
  Rank next_ = 0;                             // whose slot comes next
  std::array<std::uint64_t, 2> submitted_{};  // to the mover, by stream
  std::array<std::uint64_t, 2> moved_{};      // as far as it has said
};

}  // namespace rondo
