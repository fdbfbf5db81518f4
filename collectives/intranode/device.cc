#include "collectives/intranode/device.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"

namespace rondo {

struct DeviceStrategy::Advertisement {
  DevicePeers::MemoryHandle input{}, output{};
  DevicePeers::MemoryHandle barrier_state{};  // set if the operation is in a graph
  DevicePeers::TimeSlicedGpu time_sliced_gpu;
  double scale = 1.0;
  bool can = false;
};

DeviceStrategy::DeviceStrategy(const IntranodeSegment& segment, const IntranodeOperation& operation,
                               WindowCounts& counts)
    : segment_(segment),
      operation_(operation),
      reads_(segment, operation, counts),
      memory_(static_cast<std::size_t>(segment.world_size())),
      scales_(static_cast<std::size_t>(segment.world_size())) {}

bool DeviceStrategy::Serves(const OperationDescriptor& operation) const {
  return !operation.varying && !IsUserDefined(operation.op) &&
         static_cast<std::size_t>(segment_.world_size()) <= DeviceReduce::kMaxOperands &&
         segment_.slot_bytes() >= sizeof(Advertisement);
}

bool DeviceStrategy::Begin(double scale, DevicePeers* peers, DeviceProgram* program) {
  scale_ = scale;
  peers_ = peers;
  program_ = program;
  state_ = State::kAdvertising;
  // In a graph the devices wait for each other even if the operation has no bytes.
  return operation_.bytes_of_all() > 0 || program != nullptr;
}

DeviceStrategy::Advertisement DeviceStrategy::AdvertisementOf(Rank rank, std::uint64_t round) const {
  Advertisement theirs;
  std::memcpy(&theirs, segment_.PayloadOf(rank, round), sizeof theirs);
  return theirs;
}

void DeviceStrategy::Advertise(std::byte* payload) {
  Advertisement own{.scale = scale_};
  if (peers_ != nullptr) {
    own.time_sliced_gpu = peers_->time_sliced_gpu();
    own.can = AdvertiseMemory(own);
  }
  std::memcpy(payload, &own, sizeof own);
}

// False: some memory cannot be exported to other ranks.
bool DeviceStrategy::AdvertiseMemory(Advertisement& own) const {
  const std::uint64_t input_bytes = reads_.InputBytesOf(operation_.rank);
  const auto input = peers_->Export(input_bytes > 0 ? reads_.own_input() : nullptr, input_bytes);
  const auto output = peers_->Export(reads_.shares_results() ? operation_.output : nullptr, operation_.bytes);
  if (!input || !output) return false;
  if (program_ != nullptr) {
    const auto state = peers_->BarrierState();
    if (!state) return false;
    // a handle of one byte gives access to the whole state, because all of it is in one allocation
    const auto handle = peers_->Export(*state, 1);
    if (!handle) return false;
    own.barrier_state = *handle;
  }
  own.input = *input;
  own.output = *output;
  return true;
}

void DeviceStrategy::ReadAdvertisements(std::uint64_t round) {
  bool reaches_all = peers_ != nullptr;
  if (!is_time_sliced_) is_time_sliced_ = AnyIsTimeSliced(round);
  for (Rank r = 0; r < operation_.world_size; ++r) {
    const Advertisement theirs = AdvertisementOf(r, round);
    scales_[static_cast<std::size_t>(r)] = theirs.scale;
    reaches_all = reaches_all && theirs.can && Open(r, theirs);
  }
  state_ = reaches_all ? State::kReachable : State::kUnreachable;
}

// Opens the memory of `rank`. False: our own device cannot access all of that memory.
bool DeviceStrategy::Open(Rank rank, const Advertisement& theirs) {
  PeerMemory& memory = memory_[static_cast<std::size_t>(rank)];
  const bool may_wait = program_ != nullptr;
  if (program_ != nullptr) {
    const auto state = peers_->Open(theirs.barrier_state, may_wait);
    program_->barrier_states.push_back(state ? *state : nullptr);
    if (!state) return false;
  }
  memory = {.input = rank == operation_.rank ? reads_.own_input() : nullptr, .output = operation_.output};
  if (rank == operation_.rank) return true;
  const auto open = [&](const DevicePeers::MemoryHandle& handle, const std::byte*& here) {
    const auto opened = peers_->Open(handle, may_wait);
    here = opened ? *opened : nullptr;
    return opened.has_value();
  };
  const bool has_input = reads_.InputBytesOf(rank) == 0 || open(theirs.input, memory.input);
  const bool has_output = !reads_.shares_results() || open(theirs.output, memory.output);
  return has_input && has_output;
}

bool DeviceStrategy::AnyIsTimeSliced(std::uint64_t round) const {
  for (Rank one = 0; one < operation_.world_size; ++one)
    for (Rank other = 0; other < one; ++other)
      if (IsTimeSliced(AdvertisementOf(one, round).time_sliced_gpu, AdvertisementOf(other, round).time_sliced_gpu))
        return true;
  return false;
}

bool DeviceStrategy::OnVotes(bool all_can_reach) {
  if (all_can_reach) return true;
  state_ = State::kDeclined;
  if (program_ != nullptr) program_->declined = "not all ranks' devices reach the others' memory";
  return false;
}

void DeviceStrategy::Start() {
  const std::uint64_t one_window = RoundUp(std::max<std::uint64_t>(operation_.bytes, 1), kLineBytes);
  reads_.Start(/*by_shares=*/reads_.shares_results(), one_window);
  state_ = State::kStarted;
  awaited_ = 0;
  if (program_ != nullptr) program_->has_middle_barrier = reads_.by_shares();
}

Status DeviceStrategy::Reduce() {
  DeviceReduce reduction{.destination = operation_.output + reads_.fold().begin,
                         .count = static_cast<std::size_t>(operation_.world_size),
                         .elements = reads_.fold().bytes / SizeOf(operation_.descriptor.type),
                         .type = operation_.descriptor.type,
                         .op = operation_.descriptor.op,
                         .divisor = operation_.divides ? operation_.world_size : 0};
  for (Rank r = 0; r < operation_.world_size; ++r) {
    const auto i = static_cast<std::size_t>(r);
    reduction.operands[i] = (r == operation_.rank ? operation_.source() : memory_[i].input) + reads_.fold_from();
    reduction.scales[i] = scales_[i];
  }
  if (program_ == nullptr) return peers_->Reduce(reduction);
  program_->reductions.push_back(reduction);
  return {};
}

Result<bool> DeviceStrategy::TakeOn() {
  bool took = false;
  for (Rank i = 1; i <= operation_.world_size; ++i) {
    const Rank r = (operation_.rank + i) % operation_.world_size;
    const std::uint64_t windows = reads_.MayTake(r, 1);
    if (windows == 0) continue;
    const PeerReads::Piece& piece = reads_.piece(r);
    const PeerMemory& memory = memory_[static_cast<std::size_t>(r)];
    const std::byte* const source = (reads_.by_shares() ? memory.output : memory.input) + piece.from;
    if (program_ != nullptr) {
      program_->copies.push_back({operation_.output + piece.to, source, piece.bytes});
    } else {
      RONDO_TRY(peers_->CopyWithin(operation_.output + piece.to, source, piece.bytes));
    }
    reads_.OnTaken(r, windows);
    took = true;
  }
  if (took) awaited_ = peers_->begun();
  return took;
}

Result<Progress> DeviceStrategy::Poll() {
  bool moved = false;
  if (!reads_.has_folded()) {
    if (state_ == State::kStarted) {
      state_ = State::kReducing;
      moved = true;
      if (reads_.fold().bytes > 0) RONDO_TRY(Reduce());
      awaited_ = peers_->begun();
    }
    RONDO_ASSIGN(const std::uint64_t ended, peers_->Ended());
    if (ended < awaited_) return moved ? Progress::kMoved : Progress::kNothing;
    reads_.OnFoldedAll();
    moved = true;
  }
  RONDO_ASSIGN(const bool took, TakeOn());
  RONDO_ASSIGN(const std::uint64_t ended, peers_->Ended());
  if (!reads_.IsDone() || ended < awaited_) return moved || took ? Progress::kMoved : Progress::kNothing;
  if (segment_.AnyHasWithdrawn()) return Progress::kNothing;
  reads_.End();
  return Progress::kComplete;
}

void DeviceStrategy::Drain() const {
  if (peers_ != nullptr) peers_->Drain();
}

}  // namespace rondo
