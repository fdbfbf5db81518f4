// Large collectives on a board, straight from the memory that ranks bring to the call: nothing passes through slots.
//
//              rank 0                      rank 1
//   inputs     [ a0 | b0 ]                 [ a1 | b1 ]
//   fold       [ a0 + a1 |     ]           [     | b0 + b1 ]      each its share, straight from all inputs
//   copy       [ a0 + a1 | b0 + b1 ]       ...                    each the others' shares, straight from their outputs
//
// That is an all_reduce: of S bytes among n ranks each folds S/n and copies (n - 1)/n S, which is what there is to do.
// A short one is folded whole by everyone, which spares a wait; but not in place, where others still read what that
// overwrites. A reduce_scatter only folds, as the root of a reduce does; broadcast, gathers, scatter and all_to_all
// only copy. All in windows; and each folds all of its share before it copies others': by turns, ranks take lines from
// each other's caches while they are written (a sixth more time at 4 and 16 MiB among two).
//
// Memory of others comes in two ways. Regions (Transport::Allocate) are mapped, and operands as good as one's own. All
// else is read through the kernel (Board::Read): what is copied goes straight to its place, what is folded passes
// through the payloads of this rank's slots, which stay in its cache. Nobody reads those then. What is copied takes
// several windows in a system call.
//
// Whether it can be done all ranks must see alike. A turn in which each shows where its memory lies and whether it can
// read that of others; where all lie in regions, a turn in which each says whether it could map them all; then this, or
// the ordinary turns. At the end one more, after which nobody reads anybody's memory: all wait for it.
//
// A rank whose operation fails gives its memory back to its user while others may still read it. So it withdraws first,
// and who has read looks whether it has (a sequence lock's reader): what was read may then be something else, and the
// operation never ends. Why, it learns by other ways; and so it does where a rank's process has gone. (A process of the
// same user that got the number of one that died in its closing turn could be read instead, if it began at once.)
//
//   Relay::folded   how many windows of shares this rank has folded, over all operations: stored with release after the
//                   last byte of one, loaded with acquire before it is copied
//
// In place a rank's share of its own vector is read by nobody else, and the shares it copies into were read by their
// folders before they said so. Other collectives read no block that is written.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "collectives/engine/board_path.h"

namespace rondo {
namespace {

// Mapping pays from here on; of a vector, or of all blocks of a rank together.
constexpr std::uint64_t kMapBytes = 128 * 1024;
// Reading does from here on, likewise, times the square of the ranks: the further turn costs more the more there are,
// and so do as many system calls.
constexpr std::uint64_t kReadBytes = 4 * 1024;
// What an all_reduce reads another core has just written, as a rule, and in place always: its lines come one by one,
// and slots are as good for fewer of them. Among more ranks a relay is faster, where those share cores.
constexpr std::uint64_t kSumBytes = 64 * 1024, kSumInPlaceBytes = 128 * 1024;
constexpr int kMostRanksToSum = 2;
// Longer broadcasts are faster where the root copies, too.
constexpr std::uint64_t kMostBroadcastBytes = 2 * 1024 * 1024;
// The root of a reduce folds all of it alone; of a longer one, and among more, all fold a share.
constexpr std::uint64_t kMostReduceBytes = 1024 * 1024;
constexpr std::uint64_t kMapWindowBytes = 64 * 1024;
constexpr std::uint64_t kReadWindowBytes = 128 * 1024;  // of what is folded each is a system call
constexpr std::uint64_t kWindowsAtOnce = 8;             // in a system call, of what is copied
// In one go, of all ranks together, before the caller may look at its deadlines.
constexpr std::uint64_t kWindowsPerPoll = 32;

struct Shown {
  std::uint32_t input_region = 0, output_region = 0;
  std::uint64_t input = 0, output = 0;
  bool may_read = false;  // others' memory
  bool is_readable = false;
  bool in_place = false;
};

}  // namespace

// In a pre-multiplied sum the operands that are reduced lie nowhere.
bool BoardPath::MayPull() const {
  const bool reduces_to_one = operation_.collective == Collective::kReduce;
  if (scales_ || (reduces_to_one && (world_size_ > kMostRanksToSum || bytes_ > kMostReduceBytes))) return false;
  return BytesOfAll() >= kMapBytes || (may_read_ && PaysToRead());
}

bool BoardPath::PaysToRead() const {
  const auto world = static_cast<std::uint64_t>(world_size_);
  if (BytesOfAll() < kReadBytes * world * world) return false;
  switch (operation_.collective) {
    case Collective::kAllReduce: return world_size_ <= kMostRanksToSum && bytes_ >= kSumBytes;
    case Collective::kBroadcast: return bytes_ <= kMostBroadcastBytes;
    default: return true;
  }
}

// Of what it brings.
std::uint64_t BoardPath::LentBytes(Rank rank) const {
  const bool is_root = rank == operation_.root;
  switch (operation_.collective) {
    case Collective::kAllReduce:
    case Collective::kAllGather: return bytes_;
    case Collective::kBroadcast: return is_root ? bytes_ : 0;
    case Collective::kReduce:
    case Collective::kGather: return is_root ? 0 : bytes_;
    case Collective::kScatter: return is_root ? BlockAt(world_size_) : 0;
    default: return BlockAt(world_size_);
  }
}

const std::byte* BoardPath::LentInput() const {
  return Source() + (in_place_ && operation_.collective == Collective::kAllGather ? BlockAt(rank_) : 0);
}

void BoardPath::WritePrelude() {
  if (on_devices_ && stage_ == Stage::kShow) return ShowOnDevice();
  static_assert(sizeof(Shown) <= kInlineBytes);
  std::byte* const slot = Payload(rank_, turn_);
  if (stage_ == Stage::kVote) {
    *slot = std::byte{can_map_};
    return;
  }
  const Bytes input(LentInput(), LentBytes(rank_));
  const Bytes output(buffers_.output, LendsResult() ? bytes_ : 0);
  const auto address = [](Bytes memory) { return reinterpret_cast<std::uintptr_t>(memory.data()); };
  Shown own{.input = address(input), .output = address(output), .may_read = board_.CanRead(), .in_place = in_place_};
  bool all_shown = BytesOfAll() >= kMapBytes;
  if (all_shown) board_.LetGoOfFreed();
  const auto find = [&](Bytes memory, std::uint32_t& region) {
    if (!all_shown || memory.empty()) return;
    region = board_.RegionOf(memory);
    all_shown = region != 0;
  };
  find(input, own.input_region);
  find(output, own.output_region);
  // Not before both are found: a region that nobody is told of is looked for by nobody, and stays at the peers for
  // good.
  for (const std::uint32_t region : {own.input_region, own.output_region})
    if (all_shown && region != 0) all_shown = board_.Show(region);
  if (!all_shown) own.input_region = own.output_region = 0;
  own.is_readable = all_shown || (own.may_read && board_.CanBeRead(input) && board_.CanBeRead(output));
  std::memcpy(slot, &own, sizeof own);
}

// All have published it.
void BoardPath::EndPrelude() {
  const auto in_slot = [&](Rank rank) { return Payload(rank, turn_); };
  if (stage_ == Stage::kVote) {
    bool all = true;
    for (Rank r = 0; r < world_size_; ++r) all = all && *in_slot(r) != std::byte{0};
    stage_ = Stage::kMain;
    if (on_devices_) {
      declined_ = !all;
      if (program_ != nullptr && declined_) program_->declined = "not all ranks' devices reach the others' memory";
      if (all) BeginOnDevices();
    } else if (all || can_read_) {
      BeginPull(/*mapped=*/all);
    }
    return;
  }
  if (on_devices_) return FindOnDevices();
  bool all_shown = BytesOfAll() >= kMapBytes;
  bool all_readable = true;
  can_map_ = may_read_ = true;
  bool all_apart = true;
  for (Rank r = 0; r < world_size_; ++r) {
    Shown shown;
    std::memcpy(&shown, in_slot(r), sizeof shown);
    may_read_ = may_read_ && shown.may_read;
    all_readable = all_readable && shown.is_readable;
    all_apart = all_apart && !shown.in_place;
    const std::uint64_t bytes = LentBytes(r);
    all_shown = all_shown && (bytes == 0 || shown.input_region != 0);
    Lent& lent = lent_[static_cast<std::size_t>(r)];
    lent = {.input = {.there = shown.input}, .output = {.there = shown.output}};
    if (r == rank_) {
      lent.input.here = LentInput();
      lent.output.here = buffers_.output;
      continue;
    }
    const auto find = [&](std::uint32_t region, Place& place, std::uint64_t size) {
      if (size == 0) return;
      if (region != 0) place.here = board_.Find(r, {.region = region, .address = place.there}, size);
      can_map_ = can_map_ && place.here != nullptr;
    };
    find(shown.input_region, lent.input, bytes);
    if (LendsResult()) find(shown.output_region, lent.output, bytes_);
  }
  shares_ = LendsResult() && (bytes_ > kSumInPlaceBytes || !all_apart);
  can_read_ = may_read_ && all_readable && PaysToRead() && (!shares_ || bytes_ >= kSumInPlaceBytes);
  stage_ = all_shown ? Stage::kVote : Stage::kMain;
  if (!all_shown && can_read_) BeginPull(/*mapped=*/false);
}

void BoardPath::BeginPull(bool mapped) {
  ++all_pulls_;
  pulls_ = in_pull_ = true;
  maps_ = mapped;
  relays_ = two_turns_ = false;
  turns_ = 1;
  shares_ = shares_ || (maps_ && LendsResult());
  window_bytes_ = std::min(maps_ ? kMapWindowBytes : kReadWindowBytes, slot_bytes_ / kLineBytes * kLineBytes);
  ChoosePieces();
  relay_folded_ = fold_.bytes == 0 && !shares_ ? windows_ : 0;
  operand_ = kNoRank;
  lost_ = kNoRank;
}

// What this rank folds, and what it copies from whom.
void BoardPath::ChoosePieces() {
  const Collective collective = operation_.collective;
  const bool is_root = rank_ == operation_.root;
  fold_ = {};
  fold_from_ = 0;
  for (Rank r = 0; r < world_size_; ++r) {
    Lent& lent = lent_[static_cast<std::size_t>(r)];
    lent.from = lent.to = lent.bytes = lent.taken = 0;
    const bool by_root = r == operation_.root;
    const bool brings = r != rank_ || !in_place_;  // what does not lie there already
    switch (collective) {
      case Collective::kAllReduce:
        if (r == rank_ || !shares_) break;
        lent.from = lent.to = ShareOf(r, {0, bytes_}).begin;
        lent.bytes = ShareOf(r, {0, bytes_}).bytes;
        break;
      case Collective::kBroadcast:
        if (by_root && brings) lent.bytes = bytes_;
        break;
      case Collective::kAllGather:
      case Collective::kGather:
        if (!brings || (collective == Collective::kGather && !is_root)) break;
        lent.to = BlockAt(r);
        lent.bytes = bytes_;
        break;
      case Collective::kScatter:
        if (!by_root || !brings) break;
        lent.from = BlockAt(rank_);
        lent.bytes = bytes_;
        break;
      case Collective::kAllToAll:
        lent.from = BlockAt(rank_);
        lent.to = BlockAt(r);
        lent.bytes = bytes_;
        break;
      default: break;
    }
  }
  if (collective == Collective::kAllReduce) {
    fold_ = shares_ ? ShareOf(rank_, {0, bytes_}) : Range{0, bytes_};
    fold_from_ = fold_.begin;
  } else if (collective == Collective::kReduce && is_root) {
    fold_ = {0, bytes_};
  } else if (collective == Collective::kReduceScatter) {
    fold_ = {in_place_ ? BlockAt(rank_) : 0, bytes_};
    fold_from_ = BlockAt(rank_);
  }
  // The same on all ranks: rank 0's share is the longest.
  windows_ = DivCeil(shares_ ? ShareOf(0, {0, bytes_}).bytes : bytes_, window_bytes_);
}

BoardPath::Range BoardPath::PullWindow(const Range& all, std::uint64_t window) const {
  const std::uint64_t at = std::min(window * window_bytes_, all.bytes);
  return {all.begin + at, std::min(window_bytes_, all.bytes - at)};
}

Result<Progress> BoardPath::PollPull() {
  if (lost_ != kNoRank) return Progress::kNothing;
  bool moved = false;
  for (std::uint64_t windows = 0; windows < kWindowsPerPoll;) {
    RONDO_ASSIGN(const bool folded, FoldOn());
    RONDO_ASSIGN(const std::uint64_t taken, TakeOn());
    windows += taken + (folded ? static_cast<std::uint64_t>(world_size_) : 0);  // of a fold one from each rank
    bool all_taken = true;
    for (const Lent& lent : lent_) all_taken = all_taken && (lent.bytes == 0 || lent.taken == windows_);
    if (relay_folded_ == windows_ && all_taken && lost_ == kNoRank && mover_.Done(kCollects) >= submitted_[kCollects]) {
      if (AnyHasWithdrawn()) return Progress::kNothing;
      if (shares_) {
        RelayOf(rank_).copied.store(relay_begin_ + windows_, std::memory_order_release);  // where all stand
        relay_begin_ += windows_;
      }
      return Progress::kComplete;
    }
    if ((!folded && taken == 0) || lost_ != kNoRank) return moved ? Progress::kMoved : Progress::kNothing;
    moved = true;
  }
  return Progress::kMoved;
}

// Goes on with this rank's window. True: it is folded.
Result<bool> BoardPath::FoldOn() {
  if (relay_folded_ == windows_) return false;
  const Range window = PullWindow(fold_, relay_folded_);
  const std::uint64_t at = fold_from_ + (window.begin - fold_.begin);
  std::byte* const output = buffers_.output + window.begin;
  // The fold of the lower ranks overwrites it: it makes room.
  const bool moves_away = in_place_ && rank_ >= 2;
  const std::byte* const own = moves_away ? Payload(rank_, turn_) : Source() + at;
  const auto room_for = [&](Rank by) { return by == 0 && rank_ >= 2 ? output : Payload(rank_, turn_ + 1); };
  const auto is_done = [&] { return mover_.Done(kWrites) >= submitted_[kWrites]; };
  const auto operand = [&](Rank by) -> const std::byte* {
    if (by == rank_) return own;
    return maps_ ? lent_[static_cast<std::size_t>(by)].input.here + at : room_for(by);
  };
  if (operand_ == kNoRank) {
    if (moves_away) Copy(kWrites, Payload(rank_, turn_), Source() + at, window.bytes);
    operand_ = 0;
  }
  if (operand_ == 0 && !is_done()) return false;  // a user's function takes operands at once
  for (; window.bytes > 0 && operand_ < world_size_; ++operand_) {
    const Rank r = operand_;
    if (!maps_ && r != rank_) {
      if (!is_done()) return false;  // what lies in the room is still wanted
      RONDO_TRY(Read(r, lent_[static_cast<std::size_t>(r)].input, at, room_for(r), window.bytes));
      if (lost_ != kNoRank) return false;
    }
    if (r == 0) continue;
    Submit(kWrites, {.kind = r == world_size_ - 1 && divides_ ? MoveKind::kReduceDivide : MoveKind::kReduce,
                     .destination = output,
                     .left = r == 1 ? operand(0) : output,
                     .right = operand(r),
                     .bytes = window.bytes,
                     .left_is_input = r == 1,
                     .right_is_input = true});
  }
  if (!is_done()) return false;
  operand_ = kNoRank;
  ++relay_folded_;
  if (shares_) {
    RelayOf(rank_).folded.store(relay_begin_ + relay_folded_, std::memory_order_release);
    board_.RingSleepers();
  }
  return true;
}

// Some windows of each piece that can be had, each rank beginning with another one. Returns how many there were.
Result<std::uint64_t> BoardPath::TakeOn() {
  std::uint64_t taken = 0;
  for (Rank i = 1; i <= world_size_; ++i) {
    const Rank r = (rank_ + i) % world_size_;
    Lent& lent = lent_[static_cast<std::size_t>(r)];
    const std::uint64_t windows = MayTake(r);
    if (windows == 0) continue;
    const Range all{lent.from, lent.bytes};
    const std::uint64_t begin = PullWindow(all, lent.taken).begin;
    const std::uint64_t bytes = PullWindow(all, lent.taken + windows - 1).end() - begin;
    std::byte* const destination = buffers_.output + lent.to + (begin - lent.from);
    const Place& place = shares_ ? lent.output : lent.input;
    if (maps_ || r == rank_) {
      CopyOut(destination, place.here + begin, bytes);
    } else {
      RONDO_TRY(Read(r, place, begin, destination, bytes));
      if (lost_ != kNoRank) return taken;
    }
    lent.taken += windows;
    taken += windows;
  }
  return taken;
}

// Sets `lost_` where the memory has been given back, before or after it was read, or went with its process.
Status BoardPath::Read(Rank rank, const Place& place, std::uint64_t at, std::byte* destination, std::uint64_t bytes) {
  if (bytes == 0) return {};
  const Status read = board_.Read(rank, place.there + at, {destination, bytes});
  std::atomic_thread_fence(std::memory_order_acquire);
  if (HasWithdrawn(rank) || (!read && read.error().code() == ErrorCode::kPeerLost)) {
    lost_ = rank;
    return {};
  }
  if (read) return {};
  const bool is_own = read.error().code() == ErrorCode::kInvalidArgument;
  return Fail(Error(read.error().code(),
                    is_own ? read.error().message() : fmt::format("rank {}: {}", rank, read.error().message()))
                  .With([&](ErrorDetails& d) { d.culprit = is_own ? rank_ : rank; }));
}

// How many windows.
std::uint64_t BoardPath::MayTake(Rank rank) const {
  const Lent& lent = lent_[static_cast<std::size_t>(rank)];
  if (lent.bytes == 0 || (shares_ && relay_folded_ < windows_)) return 0;
  const std::uint64_t ready = shares_ ? FoldedBy(rank) : windows_;
  return std::min(ready - lent.taken, maps_ ? 1 : kWindowsAtOnce);
}

bool BoardPath::HasWithdrawn(Rank rank) const { return RelayOf(rank).withdrawn.load(std::memory_order_relaxed); }

// REQUIRES: comes after the last look at anybody's memory.
bool BoardPath::AnyHasWithdrawn() const {
  std::atomic_thread_fence(std::memory_order_acquire);
  for (Rank r = 0; r < world_size_; ++r)
    if (HasWithdrawn(r)) return true;
  return false;
}

// Before the user's first touch.
void BoardPath::Withdraw() {
  RelayOf(rank_).withdrawn.store(true, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

bool BoardPath::PullWaitsFor(Rank peer) const {
  if (lost_ != kNoRank) return peer == lost_;
  if (relay_folded_ < windows_) return false;
  const Lent& lent = lent_[static_cast<std::size_t>(peer)];
  return (lent.bytes > 0 && lent.taken < windows_ && MayTake(peer) == 0) || HasWithdrawn(peer);
}

bool BoardPath::PullHasNews() const {
  if (lost_ != kNoRank) return false;
  if (relay_folded_ < windows_) return true;
  bool waits = false;
  for (Rank r = 0; r < world_size_; ++r) {
    const Lent& lent = lent_[static_cast<std::size_t>(r)];
    if (MayTake(r) > 0) return true;
    waits = waits || (lent.bytes > 0 && lent.taken < windows_);
  }
  return !waits && !AnyHasWithdrawn();
}

// Of a vector or block, about.
std::uint64_t BoardPath::PulledBytes() const {
  if (windows_ == 0) return 0;  // of nothing, as a barrier in a graph is
  std::uint64_t least = relay_folded_;
  for (const Lent& lent : lent_)
    if (lent.bytes > 0) least = std::min(least, lent.taken);
  return least * bytes_ / windows_;
}

}  // namespace rondo
