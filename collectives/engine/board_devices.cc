// Collectives on memory of devices whose ranks share a host: each rank's device reads what it wants of the others'
// memory where it lies, by kernels and copies. Nothing passes through the host; it only says who may go on.
//
// The protocol is that of board_pull.cc, with these differences. Memory is shown in the devices' own terms
// (DevicePeers::Place). Each then says whether its device reaches all of it, and where one does not the operation is
// declined by all: it is done in another way, and nothing has happened. A share is folded in one piece, from all ranks'
// memory at once; so in place nothing need move away, and factors of a pre-multiplied sum are applied on the way.
//
//   rank 0                               rank 1
//   fold a0 + a1 -> own output           fold b0 + b1 -> own output     each its share, from all inputs
//   Relay::folded                        Relay::folded                  stored when the device has ended it
//   copy b from rank 1's output          copy a from rank 0's output
//
// Of S bytes among n ranks each device so reads S and writes S/n, and then copies (n - 1)/n S.
//
// For a graph the same is run without any work of a device: what would be begun is written down as a program, with the
// places where the devices will meet instead of their ranks (DeviceProgram), which are shown beside the memory.
#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/check.h"
#include "collectives/engine/board_path.h"

namespace rondo {

struct BoardPath::ShownOnDevice {
  DevicePeers::Place input{}, output{};
  DevicePeers::Place meeting{};  // of graphs
  DevicePeers::Server server;
  double scale = 1.0;
  bool can = false;
};

bool BoardPath::ServesDevices(const OperationDescriptor& operation) const {
  return Serves(operation) && !IsUserDefined(operation.op) &&
         static_cast<std::size_t>(world_size_) <= DeviceFold::kMostOperands && slot_bytes_ >= sizeof(ShownOnDevice);
}

void BoardPath::StartOnDevices(const OperationDescriptor& operation, const OperationBuffers& buffers, double scale,
                               bool in_place, DevicePeers* peers, DeviceProgram* program) {
  RONDO_CHECK(ServesDevices(operation), "{}", operation.ToString());
  Start(operation, buffers, scale, in_place);
  peers_ = peers;
  program_ = program;
  scale_ = scale;
  scales_of_.resize(static_cast<std::size_t>(world_size_));
  // Without bytes it is an operation like others, but for a graph, in which the devices meet all the same.
  on_devices_ = BytesOfAll() > 0 || program != nullptr;
  if (!on_devices_) {
    stage_ = Stage::kMain;
    return;
  }
  stage_ = Stage::kShow;
  relays_ = two_turns_ = in_line_ = false;
  turns_ = 1;
  wanted_ = WantedInTurn();
}

void BoardPath::ShowOnDevice() {
  ShownOnDevice own{.scale = scale_};
  if (peers_ != nullptr) {
    own.server = peers_->server();
    const std::uint64_t lent_bytes = LentBytes(rank_);
    const auto input = peers_->Show(lent_bytes > 0 ? LentInput() : nullptr, lent_bytes);
    const auto output = peers_->Show(LendsResult() ? buffers_.output : nullptr, bytes_);
    own.can = input && output && (program_ == nullptr || ShowMeetingPlace(own));
    if (own.can) {
      own.input = *input;
      own.output = *output;
    }
  }
  std::memcpy(Payload(rank_, turn_), &own, sizeof own);
}

bool BoardPath::ShowMeetingPlace(ShownOnDevice& shown) {
  const auto place = peers_->MeetingPlace();
  // How large it is its device knows; it is never in two.
  const auto meeting = place ? peers_->Show(*place, 1) : Result<DevicePeers::Place>(Fail(place.error()));
  if (meeting) shown.meeting = *meeting;
  return meeting.has_value();
}

// All have published what they show.
void BoardPath::FindOnDevices() {
  can_map_ = peers_ != nullptr;
  if (!devices_take_turns_) devices_take_turns_ = AnyTakeTurns();
  for (Rank r = 0; r < world_size_; ++r) {
    ShownOnDevice shown;
    std::memcpy(&shown, Payload(r, turn_), sizeof shown);
    can_map_ = can_map_ && shown.can;
    scales_of_[static_cast<std::size_t>(r)] = shown.scale;
    Lent& lent = lent_[static_cast<std::size_t>(r)];
    lent = {.input = {.here = r == rank_ ? LentInput() : nullptr}, .output = {.here = buffers_.output}};
    if (program_ != nullptr && can_map_) FindMeetingPlace(shown);
    if (r == rank_ || !can_map_) continue;
    const auto find = [&](const DevicePeers::Place& place, const std::byte*& here) {
      const auto found = peers_->Find(place, /*may_wait=*/program_ != nullptr);
      can_map_ = can_map_ && found;
      here = found ? *found : nullptr;
    };
    if (LentBytes(r) > 0) find(shown.input, lent.input.here);
    if (LendsResult()) find(shown.output, lent.output.here);
  }
  stage_ = Stage::kVote;
}

bool BoardPath::AnyTakeTurns() const {
  const auto server_of = [&](Rank rank) {
    ShownOnDevice shown;
    std::memcpy(&shown, Payload(rank, turn_), sizeof shown);
    return shown.server;
  };
  for (Rank one = 0; one < world_size_; ++one)
    for (Rank other = 0; other < one; ++other)
      if (TakeTurns(server_of(one), server_of(other))) return true;
  return false;
}

void BoardPath::FindMeetingPlace(const ShownOnDevice& shown) {
  const auto found = peers_->Find(shown.meeting, /*may_wait=*/true);
  can_map_ = found.has_value();
  program_->places.push_back(found ? *found : nullptr);
}

void BoardPath::BeginOnDevices() {
  ++all_pulls_;
  pulls_ = in_pull_ = true;
  shares_ = LendsResult();
  window_bytes_ = RoundUp(std::max<std::uint64_t>(bytes_, 1), kLineBytes);  // one
  ChoosePieces();
  relay_folded_ = 0;
  operand_ = kNoRank;
  lost_ = kNoRank;
  begun_ = 0;
  if (program_ != nullptr) program_->meets_between = shares_;
}

Status BoardPath::FoldOnDevice() {
  DeviceFold fold{.destination = buffers_.output + fold_.begin,
                  .count = static_cast<std::size_t>(world_size_),
                  .elements = fold_.bytes / SizeOf(operation_.type),
                  .type = operation_.type,
                  .op = operation_.op,
                  .divisor = divides_ ? world_size_ : 0};
  for (Rank r = 0; r < world_size_; ++r) {
    const auto i = static_cast<std::size_t>(r);
    fold.operands[i] = (r == rank_ ? Source() : lent_[i].input.here) + fold_from_;
    fold.scales[i] = scales_of_[i];
  }
  if (program_ == nullptr) return peers_->Fold(fold);
  program_->folds.push_back(fold);
  return {};
}

// What may be copied now. Whether there was anything.
Result<bool> BoardPath::TakeOnDevices() {
  bool took = false;
  for (Rank i = 1; i <= world_size_; ++i) {
    const Rank r = (rank_ + i) % world_size_;
    Lent& lent = lent_[static_cast<std::size_t>(r)];
    if (MayTake(r) == 0) continue;
    const Place& place = shares_ ? lent.output : lent.input;
    if (program_ != nullptr) {
      program_->copies.push_back({buffers_.output + lent.to, place.here + lent.from, lent.bytes});
    } else {
      RONDO_TRY(peers_->CopyWithin(buffers_.output + lent.to, place.here + lent.from, lent.bytes));
    }
    lent.taken = windows_;
    took = true;
  }
  if (took) begun_ = peers_->begun();
  return took;
}

Result<Progress> BoardPath::PollOnDevices() {
  bool moved = false;
  if (relay_folded_ < windows_) {
    if (operand_ == kNoRank) {
      operand_ = 0;
      if (fold_.bytes > 0) RONDO_TRY(FoldOnDevice());
      begun_ = peers_->begun();
      moved = true;
    }
    RONDO_ASSIGN(const std::uint64_t ended, peers_->Ended());
    if (ended < begun_) return moved ? Progress::kMoved : Progress::kNothing;
    relay_folded_ = windows_;
    if (shares_) {
      RelayOf(rank_).folded.store(relay_begin_ + windows_, std::memory_order_release);
      board_.RingSleepers();
    }
    moved = true;
  }
  RONDO_ASSIGN(const bool took, TakeOnDevices());
  bool all_taken = true;
  for (const Lent& lent : lent_) all_taken = all_taken && (lent.bytes == 0 || lent.taken == windows_);
  RONDO_ASSIGN(const std::uint64_t ended, peers_->Ended());
  if (!all_taken || ended < begun_) return moved || took ? Progress::kMoved : Progress::kNothing;
  if (AnyHasWithdrawn()) return Progress::kNothing;
  if (shares_) {
    RelayOf(rank_).copied.store(relay_begin_ + windows_, std::memory_order_release);  // where all stand
    relay_begin_ += windows_;
  }
  return Progress::kComplete;
}

}  // namespace rondo
