#include "collectives/intranode/intranode_path.h"

#include <algorithm>
#include <atomic>

#include "base/check.h"

namespace rondo {
namespace {

// Maximum number of rounds in one poll, so that the caller can check its deadlines.
constexpr int kRoundsPerPoll = 8;

}  // namespace

IntranodePath::IntranodePath(Rank rank, int world_size, SharedSegment& shared_segment, Mover& mover)
    : segment_(rank, world_size, shared_segment),
      operation_{.rank = rank, .world_size = world_size},
      moves_(mover),
      rounds_(segment_, operation_.descriptor),
      counts_(segment_),
      slots_(segment_, operation_, moves_),
      relay_(segment_, operation_, moves_, counts_),
      single_copy_(segment_, operation_, moves_, counts_),
      device_(segment_, operation_, counts_) {}

void IntranodePath::SetOperation(const PathStart& start) {
  const OperationDescriptor& operation = start.operation;
  RONDO_CHECK(!running() && Serves(operation), "{}", operation.ToString());
  operation_.descriptor = operation;
  operation_.input = start.buffers.input;
  operation_.output = start.buffers.output;
  operation_.bytes = operation.elements() * SizeOf(operation.type);
  operation_.in_place = start.in_place;
  const bool reduces = Reduces(operation.collective);
  operation_.scales = reduces && operation.op == ReduceOp::kPremulSum;
  operation_.divides = reduces && operation.op == ReduceOp::kAvg;
  moves_.Start(operation_, start.scale);
  rounds_.StartOperation();
}

Status IntranodePath::Start(const PathStart& start) {
  SetOperation(start);
  if (single_copy_.MayServe()) {
    BeginRound(Stage::kCopyOffers, SlotRounds::Wanted::kAll);
  } else {
    StartSlotsOrRelay();
  }
  return {};
}

void IntranodePath::StartOnDevices(const PathStart& start, DevicePeers* peers, DeviceProgram* program) {
  RONDO_CHECK(ServesDevices(start.operation), "{}", start.operation.ToString());
  SetOperation(start);
  if (device_.Begin(start.scale, peers, program)) return BeginRound(Stage::kDeviceOffers, SlotRounds::Wanted::kAll);
  StartSlotsOrRelay();
}

void IntranodePath::StartSlotsOrRelay() {
  if (relay_.Serves()) return BeginRound(Stage::kRelayOpening, SlotRounds::Wanted::kAll);
  slots_.Start();
  BeginRound(Stage::kSlots, slots_.wanted());
}

Result<Progress> IntranodePath::Poll() {
  if (!running()) return Progress::kNothing;
  bool moved = false;
  for (int rounds = 0; rounds < kRoundsPerPoll; ++rounds) {
    if (IsBetweenRounds(stage_)) {
      RONDO_ASSIGN(const Progress progress, PollBetweenRounds());
      if (progress != Progress::kComplete) return moved ? Progress::kMoved : progress;
      moved = true;
      if (stage_ == Stage::kRelay) {
        BeginRound(Stage::kRelayClosing, SlotRounds::Wanted::kNone);
      } else {
        BeginRound(Stage::kClosing, SlotRounds::Wanted::kAll);
      }
    }
    RONDO_ASSIGN(const bool ended, PollRound(moved));
    if (!ended) return moved ? Progress::kMoved : Progress::kNothing;
    if (EndRound()) return Progress::kComplete;
  }
  return Progress::kMoved;
}

Result<bool> IntranodePath::PollRound(bool& moved) {
  if (!rounds_.is_published()) {
    if (rounds_.is_awaiting_slot()) {
      RONDO_ASSIGN(const bool may, rounds_.MayWrite());
      if (!may) return false;
      Write();
      rounds_.OnWriting();
      moved = true;
    }
    if (!moves_.IsDone(MoveStreams::kWrites)) return false;
    rounds_.Publish();
    if (stage_ == Stage::kSlots && slots_.ShouldDrainStores()) std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  RONDO_ASSIGN(const bool all, rounds_.TakeArrived(moved, [&](Rank rank) {
    if (stage_ == Stage::kSlots) slots_.Collect(rank, rounds_.round());
  }));
  return all && moves_.IsDone(MoveStreams::kCollects);
}

Result<Progress> IntranodePath::PollBetweenRounds() {
  switch (stage_) {
    case Stage::kRelay: return relay_.Poll();
    case Stage::kCopy: return single_copy_.Poll();
    default: return device_.Poll();
  }
}

void IntranodePath::Write() {
  switch (stage_) {
    case Stage::kSlots: return slots_.Write(rounds_.round());
    case Stage::kCopyOffers: return single_copy_.Advertise(segment_.InlineOf(operation_.rank, rounds_.round()));
    case Stage::kCopyVotes: return WriteVote(single_copy_.can_map());
    case Stage::kDeviceOffers: return device_.Advertise(segment_.PayloadOf(operation_.rank, rounds_.round()));
    case Stage::kDeviceVotes: return WriteVote(device_.can_reach());
    default: return;
  }
}

bool IntranodePath::EndRound() {
  using Wanted = SlotRounds::Wanted;
  switch (stage_) {
    case Stage::kSlots:
      if (slots_.NextRound()) {
        rounds_.Begin(slots_.wanted());
        return false;
      }
      // Prefetches as much of the slot as this operation used, because the next operation usually has the same length.
      rounds_.FetchNextSlot(slots_.BytesOfOneRound());
      break;
    case Stage::kRelayOpening:
      relay_.Start();
      stage_ = Stage::kRelay;
      return false;
    case Stage::kCopyOffers: OnCopyOutcome(single_copy_.ReadAdvertisements(rounds_.round())); return false;
    case Stage::kCopyVotes: OnCopyOutcome(single_copy_.OnVotes(AllVotedYes())); return false;
    case Stage::kDeviceOffers:
      device_.ReadAdvertisements(rounds_.round());
      BeginRound(Stage::kDeviceVotes, Wanted::kAll);
      return false;
    case Stage::kDeviceVotes:
      if (!device_.OnVotes(AllVotedYes())) break;
      device_.Start();
      stage_ = Stage::kDevice;
      return false;
    default: rounds_.FetchNextSlot(/*payload_bytes=*/0); break;
  }
  stage_ = Stage::kIdle;
  return true;
}

void IntranodePath::OnCopyOutcome(SingleCopyStrategy::Outcome outcome) {
  switch (outcome) {
    case SingleCopyStrategy::Outcome::kRefused: return StartSlotsOrRelay();
    case SingleCopyStrategy::Outcome::kVote: return BeginRound(Stage::kCopyVotes, SlotRounds::Wanted::kAll);
    case SingleCopyStrategy::Outcome::kAgreed: single_copy_.Start(); stage_ = Stage::kCopy;
  }
}

void IntranodePath::WriteVote(bool vote) { *segment_.InlineOf(operation_.rank, rounds_.round()) = std::byte{vote}; }

bool IntranodePath::AllVotedYes() const {
  for (Rank r = 0; r < operation_.world_size; ++r)
    if (*segment_.InlineOf(r, rounds_.round()) == std::byte{0}) return false;
  return true;
}

bool IntranodePath::WaitsFor(Rank peer) const {
  if (peer == operation_.rank) return false;
  switch (stage_) {
    case Stage::kIdle: return false;
    case Stage::kRelay: return relay_.WaitsFor(peer);
    case Stage::kCopy: return single_copy_.WaitsFor(peer);
    case Stage::kDevice: return device_.WaitsFor(peer);
    default: return rounds_.WaitsFor(peer);
  }
}

bool IntranodePath::HasNews() const {
  if (MoverBusy()) return true;
  switch (stage_) {
    case Stage::kIdle: return false;
    case Stage::kRelay: return relay_.HasNews();
    case Stage::kCopy: return single_copy_.HasNews();
    case Stage::kDevice: return device_.HasNews();
    default: return rounds_.HasNews();
  }
}

void IntranodePath::RunsOn(int core) {
  if (core == core_) return;  // even a store of the same value would remove the cache line from the other ranks' caches
  core_ = core;
  segment_.CountersOf(operation_.rank).core.store(std::max(core, -1) + 1, std::memory_order_relaxed);
}

// Between rounds the result is kUnknown, because a rank may then have work although no rank waits for it. The function
// reads another rank's slot only if the result depends on it: each read takes a cache line away from the rank that is
// about to write it.
AwaitedRanks IntranodePath::WhereAreAwaited() const {
  if (core_ < 0 || !running() || IsBetweenRounds(stage_) || MoverBusy()) return AwaitedRanks::kUnknown;
  bool all_known = true;
  for (Rank r = 0; r < operation_.world_size; ++r) {
    const int core = segment_.CountersOf(r).core.load(std::memory_order_relaxed) - 1;
    if (core == core_ && WaitsFor(r)) return AwaitedRanks::kOnThisCore;
    all_known = all_known && (core >= 0 || !WaitsFor(r));
  }
  return all_known ? AwaitedRanks::kOnOtherCores : AwaitedRanks::kUnknown;
}

void IntranodePath::Drain() {
  if (!running()) return;
  moves_.Drain();
  device_.Drain();
  Withdraw();
  stage_ = Stage::kIdle;
}

std::vector<BlockedStep> IntranodePath::Blocked() const {
  const std::uint64_t step = stage_ == Stage::kSlots ? slots_.index() : stage_ == Stage::kRelayClosing;
  const bool started = step > 0 || stage_ >= Stage::kCopy;
  std::vector<BlockedStep> waiting;
  for (Rank r = 0; r < operation_.world_size; ++r)
    if (WaitsFor(r))
      waiting.push_back({.peer = r,
                         .step = static_cast<std::uint32_t>(step),
                         .started = started,
                         .bytes_done = BytesDone(),
                         .bytes_due = operation_.bytes});
  return waiting;
}

std::uint64_t IntranodePath::BytesDone() const {
  switch (stage_) {
    case Stage::kSlots: return slots_.BytesDone();
    case Stage::kRelay: return relay_.BytesDone();
    case Stage::kCopy: return single_copy_.BytesDone();
    case Stage::kDevice: return device_.BytesDone();
    case Stage::kRelayClosing:
    case Stage::kClosing: return operation_.bytes;
    default: return 0;
  }
}

}  // namespace rondo
