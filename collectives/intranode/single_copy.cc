#include "collectives/intranode/single_copy.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/bytes.h"

namespace rondo {
namespace {

// Mapped access is worthwhile from this size on: the size of a vector, or of all blocks of a rank together.
constexpr std::uint64_t kMapBytes = 128 * 1024;
// CMA is worthwhile if the vector, or all blocks of a rank together, has at least this size times the square of the
// number of ranks. With more ranks the additional round costs more, and there are more system calls.
constexpr std::uint64_t kReadBytes = 4 * 1024;
// An all_reduce usually reads data that another core has just written; in place it always does. Such cache lines arrive
// one by one, so below these sizes slots are as fast as single copy. Among more than two ranks that share cores, the
// relay is faster than single copy.
constexpr std::uint64_t kSumBytes = 64 * 1024, kSumInPlaceBytes = 128 * 1024;
constexpr int kMaxRanksToSum = 2;
// Longer broadcasts are faster through slots, because with slots the root copies, too.
constexpr std::uint64_t kMaxBroadcastBytes = 2 * 1024 * 1024;
// With single copy the root of a reduce combines all vectors alone. For longer vectors, or among more than two ranks,
// it is faster if every rank reduces a share.
constexpr std::uint64_t kMaxReduceBytes = 1024 * 1024;
constexpr std::uint64_t kMapWindowBytes = 64 * 1024;
constexpr std::uint64_t kReadWindowBytes = 128 * 1024;  // a reduction reads each window by one system call
constexpr std::uint64_t kWindowsAtOnce = 8;             // a copy reads up to this many windows by one system call
// Maximum number of windows in one poll, of all ranks together, so that the caller can check its deadlines.
constexpr std::uint64_t kReadWindowsPerPoll = 32;

}  // namespace

struct SingleCopyStrategy::Advertisement {
  std::uint32_t input_region = 0, output_region = 0;
  std::uint64_t input = 0, output = 0;
  bool may_read = false;  // this rank can read other ranks' memory by CMA
  bool is_readable = false;
  bool in_place = false;
};

SingleCopyStrategy::SingleCopyStrategy(const IntranodeSegment& segment, const IntranodeOperation& operation,
                                       MoveStreams& moves, WindowCounts& counts)
    : segment_(segment),
      operation_(operation),
      moves_(moves),
      reads_(segment, operation, counts),
      memory_(static_cast<std::size_t>(segment.world_size())) {
  static_assert(sizeof(Advertisement) <= IntranodeSegment::kInlineBytes);
}

bool SingleCopyStrategy::PaysToMap() const { return operation_.bytes_of_all() >= kMapBytes; }

// A pre-multiplied sum is not supported, because no rank's memory contains the scaled operands.
bool SingleCopyStrategy::MayServe() const {
  const bool reduces_to_one = operation_.collective() == Collective::kReduce;
  // A cheap test first, because most operations are short: bytes_of_all() is at most bytes * world.
  const auto world = static_cast<std::uint64_t>(operation_.world_size);
  if (operation_.bytes * world < std::min(kMapBytes, kReadBytes * world * world)) return false;
  if (operation_.scales) return false;
  if (reduces_to_one && (operation_.world_size > kMaxRanksToSum || operation_.bytes > kMaxReduceBytes)) return false;
  return PaysToMap() || (may_read_ && PaysToRead());
}

bool SingleCopyStrategy::PaysToRead() const {
  const auto world = static_cast<std::uint64_t>(operation_.world_size);
  if (operation_.bytes_of_all() < kReadBytes * world * world) return false;
  switch (operation_.collective()) {
    case Collective::kAllReduce: return operation_.world_size <= kMaxRanksToSum && operation_.bytes >= kSumBytes;
    case Collective::kBroadcast: return operation_.bytes <= kMaxBroadcastBytes;
    default: return true;
  }
}

void SingleCopyStrategy::Advertise(std::byte* line) {
  SharedSegment& shared_segment = segment_.shared_segment();
  const Bytes input(reads_.own_input(), reads_.InputBytesOf(operation_.rank));
  const Bytes output(operation_.output, reads_.shares_results() ? operation_.bytes : 0);
  const auto address = [](Bytes memory) { return reinterpret_cast<std::uintptr_t>(memory.data()); };
  Advertisement own{.input = address(input),
                    .output = address(output),
                    .may_read = shared_segment.CanRead(),
                    .in_place = operation_.in_place};
  bool all_mappable = PaysToMap();
  if (all_mappable) shared_segment.LetGoOfFreed();
  const auto find = [&](Bytes memory, std::uint32_t& region) {
    if (!all_mappable || memory.empty()) return;
    region = shared_segment.RegionOf(memory);
    all_mappable = region != 0;
  };
  find(input, own.input_region);
  find(output, own.output_region);
  // Both regions are looked up before Show is called. If one were missing, neither would be advertised, and then peers
  // would never release a region that was already shown.
  for (const std::uint32_t region : {own.input_region, own.output_region})
    if (all_mappable && region != 0) all_mappable = shared_segment.Show(region);
  if (!all_mappable) own.input_region = own.output_region = 0;
  own.is_readable =
      all_mappable || (own.may_read && shared_segment.CanBeRead(input) && shared_segment.CanBeRead(output));
  std::memcpy(line, &own, sizeof own);
}

SingleCopyStrategy::Outcome SingleCopyStrategy::ReadAdvertisements(std::uint64_t round) {
  bool all_mappable = PaysToMap();
  bool all_readable = true, all_apart = true;
  can_map_ = may_read_ = true;
  for (Rank r = 0; r < operation_.world_size; ++r) {
    Advertisement theirs;
    std::memcpy(&theirs, segment_.InlineOf(r, round), sizeof theirs);
    may_read_ = may_read_ && theirs.may_read;
    all_readable = all_readable && theirs.is_readable;
    all_apart = all_apart && !theirs.in_place;
    const std::uint64_t input_bytes = reads_.InputBytesOf(r);
    all_mappable = all_mappable && (input_bytes == 0 || theirs.input_region != 0);
    PeerMemory& memory = memory_of(r);
    memory = {.input = {.remote = theirs.input}, .output = {.remote = theirs.output}};
    if (r == operation_.rank) {
      memory.input.mapped = reads_.own_input();
      memory.output.mapped = operation_.output;
      continue;
    }
    can_map_ = Map(r, theirs.input_region, input_bytes, memory.input) && can_map_;
    can_map_ = Map(r, theirs.output_region, reads_.shares_results() ? operation_.bytes : 0, memory.output) && can_map_;
  }
  folds_by_shares_ = reads_.shares_results() && (operation_.bytes > kSumInPlaceBytes || !all_apart);
  can_read_ = may_read_ && all_readable && PaysToRead() && (!folds_by_shares_ || operation_.bytes >= kSumInPlaceBytes);
  return all_mappable ? Outcome::kVote : OnVotes(/*all_can_map=*/false);
}

// False: the memory could not be mapped.
bool SingleCopyStrategy::Map(Rank rank, std::uint32_t region, std::uint64_t bytes, Memory& memory) const {
  if (bytes == 0) return true;
  if (region != 0)
    memory.mapped = segment_.shared_segment().Find(rank, {.region = region, .address = memory.remote}, bytes);
  return memory.mapped != nullptr;
}

SingleCopyStrategy::Outcome SingleCopyStrategy::OnVotes(bool all_can_map) {
  access_ = all_can_map ? Access::kMapped : Access::kRead;
  return all_can_map || can_read_ ? Outcome::kAgreed : Outcome::kRefused;
}

void SingleCopyStrategy::Start() {
  ++operations_;
  const bool is_mapped = access_ == Access::kMapped;
  reads_.Start(
      folds_by_shares_ || (is_mapped && reads_.shares_results()),
      std::min(is_mapped ? kMapWindowBytes : kReadWindowBytes, segment_.slot_bytes() / kLineBytes * kLineBytes));
  next_operand_ = lost_ = kNoRank;
}

Result<Progress> SingleCopyStrategy::Poll() {
  if (lost_ != kNoRank) return Progress::kNothing;
  bool moved = false;
  for (std::uint64_t windows = 0; windows < kReadWindowsPerPoll;) {
    RONDO_ASSIGN(const bool folded, FoldOn());
    RONDO_ASSIGN(const std::uint64_t taken, TakeOn());
    if (folded) windows += static_cast<std::uint64_t>(operation_.world_size);  // a fold reads one window of each rank
    windows += taken;
    if (lost_ == kNoRank && reads_.IsDone() && moves_.IsDone(MoveStreams::kCollects)) {
      if (segment_.AnyHasWithdrawn()) return Progress::kNothing;
      reads_.End();
      return Progress::kComplete;
    }
    if ((!folded && taken == 0) || lost_ != kNoRank) return moved ? Progress::kMoved : Progress::kNothing;
    moved = true;
  }
  return Progress::kMoved;
}

Result<bool> SingleCopyStrategy::FoldOn() {
  if (reads_.has_folded()) return false;
  const Rank own = operation_.rank;
  const ByteRange window = reads_.NextFoldWindow();
  const std::uint64_t at = reads_.fold_from() + (window.begin - reads_.fold().begin);
  std::byte* const output = operation_.output + window.begin;
  std::byte* const own_room = segment_.PayloadOf(own, 0);
  std::byte* const peer_room = segment_.PayloadOf(own, 1);
  // In place, reducing the operands of lower ranks would overwrite this rank's operands, so these are copied to
  // own_room first.
  const bool moves_away = operation_.in_place && own >= 2;
  const auto room_for = [&](Rank by) { return by == 0 && own >= 2 ? output : peer_room; };
  const auto operands = [&](Rank by) -> const std::byte* {
    if (by == own) return moves_away ? own_room : operation_.source() + at;
    return access_ == Access::kMapped ? memory_of(by).input.mapped + at : room_for(by);
  };
  if (next_operand_ == kNoRank) {
    if (moves_away) moves_.Copy(MoveStreams::kWrites, own_room, operation_.source() + at, window.bytes);
    next_operand_ = 0;
  }
  // A user-defined operation may read the operands as soon as they are submitted, so the copy must be done.
  if (next_operand_ == 0 && !moves_.IsDone(MoveStreams::kWrites)) return false;
  for (; window.bytes > 0 && next_operand_ < operation_.world_size; ++next_operand_) {
    const Rank r = next_operand_;
    if (r != own) {
      RONDO_ASSIGN(const bool is_there, FetchOperands(r, at, room_for(r), window.bytes));
      if (!is_there) return false;
    }
    moves_.Fold(MoveStreams::kWrites, r, output, operands(0), operands(r), window.bytes);
  }
  if (!moves_.IsDone(MoveStreams::kWrites)) return false;
  next_operand_ = kNoRank;
  reads_.OnFoldedWindow();
  return true;
}

// Reads a peer's operands into `room`, unless they are mapped. False: `room` is still in use, or the peer is lost.
Result<bool> SingleCopyStrategy::FetchOperands(Rank rank, std::uint64_t at, std::byte* room, std::uint64_t bytes) {
  if (access_ == Access::kMapped) return true;
  if (!moves_.IsDone(MoveStreams::kWrites)) return false;  // `room` is still in use
  RONDO_TRY(Read(rank, memory_of(rank).input, at, room, bytes));
  return lost_ == kNoRank;
}

// Each rank begins with a different peer, so that not all ranks read the same memory at the same time.
Result<std::uint64_t> SingleCopyStrategy::TakeOn() {
  std::uint64_t taken = 0;
  const std::uint64_t max_windows = access_ == Access::kMapped ? 1 : kWindowsAtOnce;
  for (Rank i = 1; i <= operation_.world_size; ++i) {
    const Rank r = (operation_.rank + i) % operation_.world_size;
    const std::uint64_t windows = reads_.MayTake(r, max_windows);
    if (windows == 0) continue;
    const ByteRange range = reads_.NextOfPiece(r, windows);
    const PeerReads::Piece& piece = reads_.piece(r);
    std::byte* const destination = operation_.output + piece.to + (range.begin - piece.from);
    const Memory& memory = reads_.by_shares() ? memory_of(r).output : memory_of(r).input;
    if (access_ == Access::kMapped || r == operation_.rank) {
      moves_.CopyResult(destination, memory.mapped + range.begin, range.bytes);
    } else {
      RONDO_TRY(Read(r, memory, range.begin, destination, range.bytes));
      if (lost_ != kNoRank) return taken;
    }
    reads_.OnTaken(r, windows);
    taken += windows;
  }
  return taken;
}

// Sets `lost_` if the peer has withdrawn its memory, or if the peer's process has ended.
Status SingleCopyStrategy::Read(Rank rank, const Memory& memory, std::uint64_t at, std::byte* destination,
                                std::uint64_t bytes) {
  if (bytes == 0) return {};
  const Status read = segment_.shared_segment().Read(rank, memory.remote + at, {destination, bytes});
  std::atomic_thread_fence(std::memory_order_acquire);
  if (segment_.HasWithdrawn(rank) || (!read && read.error().code() == ErrorCode::kPeerLost)) {
    lost_ = rank;
    return {};
  }
  if (read) return {};
  const bool is_own = read.error().code() == ErrorCode::kInvalidArgument;
  return Fail(Error(read.error().code(),
                    is_own ? read.error().message() : fmt::format("rank {}: {}", rank, read.error().message()))
                  .With([&](ErrorDetails& d) { d.culprit = is_own ? operation_.rank : rank; }));
}

}  // namespace rondo
