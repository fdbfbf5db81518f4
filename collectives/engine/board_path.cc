#include "collectives/engine/board_path.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "collectives/kernels/copy.h"

namespace rondo {
namespace {

// In one go, before the caller may look at its deadlines.
constexpr std::uint64_t kTurnsPerPoll = 8;
// Where every rank folds every slot, each reads so much of others at most; beyond, sharing the folding is worth a
// second turn.
constexpr std::uint64_t kFoldByAllBytes = 16 * 1024;
// On their way at once in a relay: what a second-level cache holds beside the vectors that stream through it.
constexpr std::uint64_t kRelayBytes = 1024 * 1024;

// So much of a slot at most: more lines are still on their way when they are wanted, and others behind them.
constexpr std::uint64_t kFetchedBytes = 1024;

// As __builtin_prefetch for writing, which GCC makes one for reading unless it is told that the processor knows better;
// those of x86-64 do, or take it for nothing.
void FetchToWrite(const void* line) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" ::"m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, /*rw=*/1);
#endif
}

// operator== of arrays of bytes compares them one by one.
bool IsSame(const std::array<std::byte, kDescriptorBytes>& left, const std::array<std::byte, kDescriptorBytes>& right) {
  return std::memcmp(left.data(), right.data(), kDescriptorBytes) == 0;
}

}  // namespace

BoardPath::BoardPath(Rank rank, int world_size, Board& board, Mover& mover)
    : rank_(rank),
      world_size_(world_size),
      board_(board),
      mover_(mover),
      past_caches_from_bytes_(LastLevelCacheBytes()),
      known_(static_cast<std::size_t>(world_size)),
      lent_(static_cast<std::size_t>(world_size)) {
  RONDO_CHECK(world_size >= 2, "a board of {}", world_size);
  for (Rank r = 0; r < world_size; ++r) parts_.push_back(board.part(r).data());
  const std::size_t slot = (board.part(0).size() - sizeof(Relay)) / 2;
  RONDO_CHECK(slot % kLineBytes == 0 && slot >= static_cast<std::size_t>(world_size + 1) * kLineBytes,
              "slots of {} bytes for {} ranks", slot, world_size);
  slot_bytes_ = slot - sizeof(Slot);
  relay_window_bytes_ =
      std::clamp(RoundUp(kRelayBytes / relay_slots(), kLineBytes), std::uint64_t{kLineBytes}, slot_bytes_);
  const auto world = static_cast<std::uint64_t>(world_size);
  piece_bytes_ = slot_bytes_ / world / kLineBytes * kLineBytes;
  fold_by_all_bytes_ = std::min(slot_bytes_, kFoldByAllBytes / (world - 1));
}

void BoardPath::Start(const OperationDescriptor& operation, const OperationBuffers& buffers, double scale,
                      bool in_place) {
  RONDO_CHECK(!running_ && Serves(operation), "{}", operation.ToString());
  running_ = true;
  operation_ = operation;
  Encode(operation, descriptor_);
  buffers_ = buffers;
  in_place_ = in_place;
  const bool reduces = Reduces(operation.collective);
  scales_ = reduces && operation.op == ReduceOp::kPremulSum;
  divides_ = reduces && operation.op == ReduceOp::kAvg;
  CutIntoTurns();
  stage_ = MayPull() ? Stage::kShow : Stage::kMain;
  pulls_ = on_devices_ = declined_ = false;
  index_ = 0;
  submitted_ = moved_ = {};
  NextTurn();
  mover_.Start({operation.type, operation.op, scale, world_size_}, submitted_.size());
}

void BoardPath::NextTurn() {
  ++turn_;
  writing_ = written_ = false;
  wanted_ = WantedInTurn();
  next_ = 0;
}

Result<Progress> BoardPath::Poll() {
  if (!running_) return Progress::kNothing;
  bool moved = false;
  const auto paused = [&] { return moved ? Progress::kMoved : Progress::kNothing; };
  for (std::uint64_t turns = 0; turns < kTurnsPerPoll; ++turns) {
    if (in_pull_) {
      RONDO_ASSIGN(const Progress progress, on_devices_ ? PollOnDevices() : PollPull());
      if (progress != Progress::kComplete) return progress == Progress::kMoved ? progress : paused();
      in_pull_ = false;
      moved = true;
      NextTurn();
    }
    if (!written_) {
      if (!writing_) {
        RONDO_ASSIGN(const bool may, MayWrite());
        if (!may) return paused();
        Write();
        writing_ = moved = true;
      }
      if (!HasMoved(kWrites)) return paused();
      Publish();
      written_ = true;
    }
    if (!in_relay_) {
      RONDO_ASSIGN(const bool all, CollectArrived(moved));
      if (!all || !HasMoved(kCollects)) return paused();
    }
    if (stage_ != Stage::kMain) {
      EndPrelude();
      if (declined_) {
        running_ = false;
        return Progress::kComplete;
      }
      if (!in_pull_) NextTurn();
      continue;
    }
    if (relays_ && index_ == 0) {
      if (!std::exchange(in_relay_, true)) BeginRelay();
      const Progress progress = PollRelay();
      if (progress != Progress::kComplete) return progress == Progress::kMoved ? progress : paused();
      in_relay_ = false;
      moved = true;
    }
    if (++index_ == turns_) {
      running_ = false;
      FetchNextSlot();
      return Progress::kComplete;
    }
    NextTurn();
  }
  return Progress::kMoved;
}

// False: somebody's slot has not come.
Result<bool> BoardPath::CollectArrived(bool& moved) {
  const bool together = is_share_turn();
  for (; next_ < world_size_; ++next_) {
    if (!Needs(next_)) continue;
    const Slot& slot = SlotOf(next_, turn_);
    const std::uint64_t turn = slot.turn.load(std::memory_order_acquire);
    if (turn < turn_) return false;
    if (turn != turn_ || !IsSame(slot.descriptor, descriptor_)) return Fail(Misfit(next_, slot));
    known_[static_cast<std::size_t>(next_)] = turn;
    if (!together) Collect(next_);
    moved = true;
  }
  if (together && next_ == world_size_) {
    CollectShare();
    ++next_;
  }
  return true;
}

// Whether everybody has published the turn before; an error where somebody did so in another operation, which nobody
// may have needed to see then.
Result<bool> BoardPath::MayWrite() {
  for (Rank r = 0; r < world_size_; ++r) {
    std::uint64_t& known = known_[static_cast<std::size_t>(r)];
    if (r == rank_ || known + 1 >= turn_) continue;
    const Slot& slot = SlotOf(r, turn_ - 1);
    const std::uint64_t turn = slot.turn.load(std::memory_order_acquire);
    if (turn + 1 < turn_) return false;
    if (turn + 1 == turn_ && !IsSame(slot.descriptor, last_descriptor_))
      return Fail(Disagreement(r, DecodeDescriptor(last_descriptor_), DecodeDescriptor(slot.descriptor)));
    known = turn;
  }
  return true;
}

void BoardPath::Publish() {
  Slot& own = SlotOf(rank_, turn_);
  own.descriptor = last_descriptor_ = descriptor_;
  own.turn.store(turn_, std::memory_order_release);
  board_.RingSleepers();
}

// Others may have the lines of the slot that comes next in their caches still, from two turns ago. To write it means to
// take them back, which is half of what a turn takes; so that is begun here, for as much as was written in this turn:
// what comes next is as long, as a rule.
void BoardPath::FetchNextSlot() {
  const Slot* const slot = &SlotOf(rank_, turn_ + 1);
  FetchToWrite(slot);
  if (in_line_ || turns_ > 1 || pulls_ || bytes_ > kFetchedBytes) return;
  for (std::uint64_t at = 0; at < bytes_; at += kLineBytes)
    FetchToWrite(reinterpret_cast<const std::byte*>(slot + 1) + at);
}

Error BoardPath::Misfit(Rank rank, const Slot& slot) const {
  const std::uint64_t turn = slot.turn.load(std::memory_order_acquire);
  if (turn == turn_) return Disagreement(rank, operation_, DecodeDescriptor(slot.descriptor));
  return Error(ErrorCode::kProtocol,
               fmt::format("rank {} is at turn {} of the board, ahead of turn {}", rank, turn, turn_))
      .With([&](ErrorDetails& d) { d.culprit = rank; });
}

bool BoardPath::WaitsFor(Rank peer) const {
  if (!running_ || peer == rank_) return false;
  if (in_relay_) return RelayWaitsFor(peer);
  if (in_pull_) return PullWaitsFor(peer);
  if (!written_) return !writing_ && SlotOf(peer, turn_ - 1).turn.load(std::memory_order_seq_cst) + 1 < turn_;
  return peer >= next_ && Needs(peer) && SlotOf(peer, turn_).turn.load(std::memory_order_seq_cst) != turn_;
}

void BoardPath::RunsOn(int core) {
  if (core == core_) return;  // so that the line stays in the others' caches
  core_ = core;
  RelayOf(rank_).core.store(std::max(core, -1) + 1, std::memory_order_relaxed);
}

// Between a relay's and a pull's turns ranks that are not waited for have work, too. Slots are looked at only where it
// matters: each look takes a line away from whoever is about to write it.
BoardPath::Awaited BoardPath::WhereAreAwaited() const {
  if (core_ < 0 || !running_ || in_relay_ || in_pull_ || MoverBusy()) return Awaited::kUnknown;
  bool all_known = true;
  for (Rank r = 0; r < world_size_; ++r) {
    const int core = RelayOf(r).core.load(std::memory_order_relaxed) - 1;
    if (core == core_ && WaitsFor(r)) return Awaited::kHere;
    all_known = all_known && (core >= 0 || !WaitsFor(r));
  }
  return all_known ? Awaited::kElsewhere : Awaited::kUnknown;
}

bool BoardPath::HasNews() const {
  if (!running_) return false;
  if (MoverBusy()) return true;
  if (in_relay_) return RelayHasNews();
  if (in_pull_) return PullHasNews();
  if (!written_ || is_share_turn()) {
    for (Rank r = 0; r < world_size_; ++r)
      if (WaitsFor(r)) return false;
    return true;
  }
  // Slots are taken in the ranks' order: the first that is due decides.
  for (Rank r = next_; r < world_size_; ++r)
    if (Needs(r)) return !WaitsFor(r);
  return true;
}

bool BoardPath::MoverBusy() const {
  return running_ && (mover_.Done(kWrites) < submitted_[kWrites] || mover_.Done(kCollects) < submitted_[kCollects]);
}

void BoardPath::Drain() {
  if (!running_) return;
  mover_.Drain();
  if (peers_ != nullptr) peers_->Drain();
  Withdraw();
  running_ = in_relay_ = in_pull_ = false;
}

std::vector<Standing> BoardPath::Waiting() const {
  std::vector<Standing> waiting;
  for (Rank r = 0; r < world_size_; ++r)
    if (WaitsFor(r))
      waiting.push_back({.peer = r,
                         .step = static_cast<std::uint32_t>(index_),
                         .started = index_ > 0 || pulls_,
                         .bytes_done = BytesDone(),
                         .bytes_due = bytes_});
  return waiting;
}

std::uint64_t BoardPath::BytesDone() const {
  if (in_relay_) return std::min(relay_folded_ * window_bytes_, bytes_);
  if (pulls_) return in_pull_ ? PulledBytes() : bytes_;
  return index_ * bytes_ / turns_;
}

Error BoardPath::Disagreement(Rank peer, const OperationDescriptor& own, const OperationDescriptor& theirs) const {
  ErrorDetails details;
  details.code = ErrorCode::kMismatch;
  details.culprit = peer;
  details.rank = rank_;
  details.collective = own.ToString();
  details.sequence = own.sequence;
  details.message = fmt::format("the ranks disagree: rank {} is in operation #{} {}, rank {} in operation #{} {}",
                                rank_, own.sequence, own.ToString(), peer, theirs.sequence, theirs.ToString());
  return Error(std::move(details));
}

}  // namespace rondo
