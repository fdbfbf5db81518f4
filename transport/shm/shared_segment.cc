#include "transport/shm/shared_segment.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <new>
#include <span>
#include <utility>

#include "base/check.h"
#include "transport/shm/fd_passing.h"
#include "transport/shm/fences.h"
#include "transport/shm/shared_doorbell.h"

namespace rondo::shm {
namespace {

constexpr std::uint64_t kSharedSegmentMagic = 0x6472616f622d6d68;
constexpr std::size_t kSharedSegmentHeadBytes = 4096;

}  // namespace

std::size_t SharedSegmentBytes(int world_size) {
  return kSharedSegmentHeadBytes + static_cast<std::size_t>(world_size) * kSharedSegmentPartBytes;
}

struct ShmSharedSegment::Head {
  std::uint64_t magic;
  std::int32_t world_size;
  alignas(kLineBytes) std::atomic<std::uint64_t> sleepers;
  alignas(kLineBytes) std::array<CmaProbe, kMaxSharedSegmentRanks> probes;  // by rank; zeros for a rank without a probe
  std::atomic<std::uint64_t> unable;  // a bit for each rank that cannot read all others' memory
  std::atomic<std::uint64_t>
      unfenced;  // a bit for each rank that could not join the fences; final before the state is kReady
};

ShmSharedSegment::ShmSharedSegment(SharedSegmentContext context)
    : context_(std::move(context)),
      peers_(context_.lanes.size()),
      regions_(context_.regions),
      joined_fences_(JoinFences()) {
  static_assert(sizeof(Head) <= kSharedSegmentHeadBytes);
  RONDO_CHECK(context_.world_size >= 2 && context_.world_size <= kMaxSharedSegmentRanks, "{} ranks",
              context_.world_size);
}

MutableBytes ShmSharedSegment::part(Rank rank) {
  return memory_.bytes().subspan(kSharedSegmentHeadBytes + static_cast<std::size_t>(rank) * kSharedSegmentPartBytes,
                                 kSharedSegmentPartBytes);
}

// ---- setting up ----

void ShmSharedSegment::Poll() {
  if (state_ != SharedSegmentState::kMaking || failure_) return;
  is_root() ? AdvanceAsRoot() : AdvanceAsOther();
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    const Lane* const lane = context_.lanes[i];
    if (lane == nullptr || state_ != SharedSegmentState::kMaking || failure_) continue;
    if (lane->state() == LaneState::kFailed) failure_ = *lane->failure();
    if (lane->state() == LaneState::kEnded) FailSetup(i, "it ended its lane before the shared segment was set up");
  }
}

void ShmSharedSegment::AdvanceAsOther() {
  Lane& lane = *context_.lanes[0];
  PeerSetup& peer = peers_[0];
  if (lane.state() == LaneState::kConnecting) return;
  if (phase_ == Phase::kRequesting) {
    const Result<bool> called = SendRequestToRoot();
    if (called && !*called) return;
    peer.out.Start(called ? SetupMessage::Of(SetupKind::kCalled)
                          : SetupMessage::Of(SetupKind::kCannot, called.error().message()));
    phase_ = Phase::kRequested;
    context_.step("segment called");
  }
  if (!peer.out.Push(lane)) return;
  const std::optional<SetupMessage> received = peer.in.Next(lane);
  if (!received) return;
  if (received->kind == SetupKind::kNone) return Settle(received->Why());
  if (phase_ == Phase::kMade && received->kind == SetupKind::kReady) return Settle({});
  if (phase_ == Phase::kMade || received->kind != SetupKind::kMade)
    return FailSetup(0, "it sent a message that was not expected");
  const Status taken = TakeMemory();
  peer.out.Start(taken ? SetupMessage::Of(SetupKind::kMapped)
                       : SetupMessage::Of(SetupKind::kCannot, taken.error().message()));
  phase_ = Phase::kMade;
  context_.step("segment mapped");
  peer.out.Push(lane);
}

void ShmSharedSegment::AdvanceAsRoot() {
  if (phase_ == Phase::kRequesting && ReceiveFromAll(SetupKind::kCalled)) {
    if (why_.empty()) {
      if (const Status made = MakeMemory(); !made) why_ = made.error().message();
    }
    phase_ = Phase::kMade;
    context_.step("segment made");
  }
  while (phase_ == Phase::kMade && why_.empty() && HandOutMemory()) {
  }
  if (phase_ == Phase::kMade && (!why_.empty() || mapped_ == peers_.size())) {
    phase_ = Phase::kVerdict;
    context_.step("segment judged");
    for (std::size_t i = 1; i < peers_.size(); ++i) SendTo(i, why_.empty() ? SetupKind::kReady : SetupKind::kNone);
  }
  if (phase_ != Phase::kVerdict) return;
  bool all_sent = true;
  for (std::size_t i = 1; i < peers_.size(); ++i) all_sent = peers_[i].out.Push(*context_.lanes[i]) && all_sent;
  if (all_sent) Settle(why_);
}

// Sends this endpoint's event descriptor to rank 0's socket. False: the queue of that socket is full.
Result<bool> ShmSharedSegment::SendRequestToRoot() {
  RONDO_ASSIGN(Fd connection, ConnectTo(context_.root_socket));
  if (!connection) return false;
  const ConnectMessage message{.kind = ConnectKind::kSharedSegment, .from = context_.rank};
  RONDO_TRY(SendWith(connection.get(), std::as_bytes(std::span(&message, 1)), {context_.signal}));
  peers_[0].connection = std::move(connection);
  return true;
}

// Whether all ranks have sent a message of the kind `due`. If a rank sent kCannot, `why_` becomes its reason.
bool ShmSharedSegment::ReceiveFromAll(SetupKind due) {
  bool all = true;
  for (std::size_t i = 1; i < peers_.size(); ++i) all = ReceiveFrom(i, due) && all;
  return all;
}

bool ShmSharedSegment::ReceiveFrom(std::size_t from, SetupKind due) {
  PeerSetup& peer = peers_[from];
  if (!peer.out.Push(*context_.lanes[from])) return false;
  if (peer.received == due) return true;
  const std::optional<SetupMessage> message = peer.in.Next(*context_.lanes[from]);
  if (!message) return peer.received == SetupKind::kCannot;
  peer.received = message->kind;
  if (message->kind == SetupKind::kCannot) {
    if (why_.empty()) why_ = fmt::format("rank {}: {}", from, message->Why());
    return true;
  }
  if (message->kind == due) return true;
  FailSetup(from, "it sent a message that was not expected");
  return false;
}

void ShmSharedSegment::SendTo(std::size_t to, SetupKind kind) {
  peers_[to].out.Start(SetupMessage::Of(kind, why_));
  peers_[to].out.Push(*context_.lanes[to]);
}

Status ShmSharedSegment::MakeMemory() {
  for (std::size_t i = 1; i < peers_.size(); ++i) {
    auto request = context_.find_request(static_cast<Rank>(i));
    if (!request) return Fail(ErrorCode::kProtocol, "rank {} left no request at the abstract socket", i);
    peers_[i].connection = std::move(request->connection);
    peers_[i].signal = std::move(request->signal);
  }
  RONDO_ASSIGN(memory_, SharedMemory::Make("a shared segment", SharedSegmentBytes(context_.world_size)));
  Head* const head = new (memory_.bytes().data()) Head{};
  head->magic = kSharedSegmentMagic;
  head->world_size = context_.world_size;
  WriteOwnEntry();
  return {};
}

// Passes the memory to one rank after the other, because descriptors in transit count towards a limit of this process.
// True: the caller must call the function again.
bool ShmSharedSegment::HandOutMemory() {
  if (mapped_ > 0 && !ReceiveFrom(mapped_, SetupKind::kMapped)) return false;
  if (!why_.empty() || ++mapped_ == peers_.size()) return false;
  std::vector<int> descriptors{memory_.fd(), context_.signal};
  for (std::size_t i = 1; i < peers_.size(); ++i) descriptors.push_back(peers_[i].signal.get());
  const std::byte nothing{};
  if (const Status sent = SendWith(peers_[mapped_].connection.get(), Bytes(&nothing, 1), descriptors); !sent) {
    why_ = sent.error().message();
    return false;
  }
  SendTo(mapped_, SetupKind::kMade);
  return true;
}

Status ShmSharedSegment::TakeMemory() {
  const auto due = static_cast<std::size_t>(context_.world_size) + 1;
  std::byte nothing{};
  RONDO_ASSIGN(Received received, ReceiveWith(peers_[0].connection.get(), MutableBytes(&nothing, 1), due));
  if (!received.came || received.descriptors.size() != due)
    return Fail(ErrorCode::kProtocol, "{} file descriptors were received with a shared segment; expected {}",
                received.descriptors.size(), due);
  const std::size_t size = SharedSegmentBytes(context_.world_size);
  RONDO_ASSIGN(memory_, SharedMemory::Map(std::move(received.descriptors.front()), size, size));
  if (head().magic != kSharedSegmentMagic || head().world_size != context_.world_size)
    return Fail(ErrorCode::kProtocol, "the received shared segment was not made for {} ranks", context_.world_size);
  for (std::size_t i = 1; i < due; ++i) signals_.push_back(std::move(received.descriptors[i]));
  WriteOwnEntry();
  return {};
}

// Without a nonce no rank could verify which process it reads. So if there are no random bytes, this rank has no probe.
void ShmSharedSegment::WriteOwnEntry() {
  if (!joined_fences_) head().unfenced.fetch_or(own_bit());
  if (context_.draw_nonce(nonce_)) head().probes[static_cast<std::size_t>(context_.rank)] = CmaProbeOf(nonce_);
}

void ShmSharedSegment::TryToRead() {
  for (Rank r = 0; r < context_.world_size; ++r) {
    const CmaProbe probe = head().probes[static_cast<std::size_t>(r)];
    processes_.push_back(probe.process);
    if (r == context_.rank) continue;
    const Status read = CheckCmaProbe(probe);
    if (read) continue;
    why_not_read_ = fmt::format("rank {}: {}", r, read.error().message());
    head().unable.fetch_or(own_bit());
    return;
  }
}

// Remembers memory that was readable, and does not check it again. If it is no longer readable, a peer gets an error
// when it reads.
bool ShmSharedSegment::CanBeRead(Bytes memory) {
  const auto is_it = [&](Bytes one) { return one.data() == memory.data() && one.size() == memory.size(); };
  if (std::any_of(found_readable_.begin(), found_readable_.end(), is_it)) return true;
  if (!shm::CanBeRead(memory)) return false;
  found_readable_[next_found_++ % found_readable_.size()] = memory;
  return true;
}

void ShmSharedSegment::Settle(std::string why_not) {
  state_ = why_not.empty() ? SharedSegmentState::kReady : SharedSegmentState::kNone;
  why_ = std::move(why_not);
  if (is_root() && state_ == SharedSegmentState::kReady)
    for (PeerSetup& peer : peers_) signals_.push_back(std::move(peer.signal));
  memory_.ForgetFd();
  if (state_ == SharedSegmentState::kReady) {
    fences_are_light_ = head().unfenced.load() == 0;
    TryToRead();
  }
  if (state_ == SharedSegmentState::kNone) {
    memory_ = {};
    signals_.clear();
  }
  peers_.clear();
  context_.step("segment settled");
}

// Called if peer `by` has left or sent a wrong message. Only this rank knows that, and the others may still wait for
// the segment. So the communicator must fail.
void ShmSharedSegment::FailSetup(std::size_t by, std::string_view what) {
  const Rank peer = context_.lanes[by]->peer();
  failure_ = Error(ErrorCode::kProtocol, fmt::format("cannot share memory with rank {}: {}", peer, what))
                 .With([&](ErrorDetails& d) { d.culprit = peer; });
}

std::vector<Rank> ShmSharedSegment::Missing() const {
  if (state_ != SharedSegmentState::kMaking) return {};
  if (!is_root()) return {0};
  std::vector<Rank> missing;
  for (Rank r = 1; r < context_.world_size; ++r)
    if (Lacks(static_cast<std::size_t>(r))) missing.push_back(r);
  return missing;
}

bool ShmSharedSegment::Lacks(std::size_t from) const {
  if (phase_ == Phase::kMade) return from == mapped_;
  return peers_[from].received == SetupKind::kNone;
}

std::string ShmSharedSegment::Describe() const {
  switch (state_) {
    case SharedSegmentState::kReady: {
      const std::uint64_t unable = head().unable.load();
      std::string how = "reads large vectors directly";
      if (!CanRead()) {
        how = fmt::format("cannot read large vectors directly ({})", why_not_read_);
      } else if (unable != 0) {
        how = fmt::format("rank {} cannot read large vectors directly", std::countr_zero(unable));
      }
      if (const std::uint64_t unfenced = head().unfenced.load(); unfenced != 0)
        how += fmt::format("; rank {} has no membarrier", std::countr_zero(unfenced));
      return fmt::format("shared segment, {} KiB a rank; {}", kSharedSegmentPartBytes / 1024, how);
    }
    case SharedSegmentState::kNone: return fmt::format("no shared segment: {}", why_);
    default: return {};
  }
}

// ---- sleeping ----

void ShmSharedSegment::WakeWaiters() {
  if (fences_are_light_) {
    LightFence();
  } else {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  std::uint64_t sleepers = head().sleepers.load(std::memory_order_relaxed) & ~own_bit();
  if (sleepers == 0) return;
  // Bits beyond the last rank are ignored, because any rank may have overwritten this memory by mistake.
  sleepers &= ~std::uint64_t{0} >> (64 - signals_.size());
  for (; sleepers != 0; sleepers &= sleepers - 1) {
    const std::uint64_t bit = sleepers & -sleepers;
    // Another rank has cleared the bit, and wakes the sleeper.
    if ((head().sleepers.fetch_and(~bit, std::memory_order_seq_cst) & bit) == 0) continue;
    EventFdRef(signals_[static_cast<std::size_t>(std::countr_zero(bit))].get()).Post();
  }
}

bool ShmSharedSegment::Arm() {
  // During set-up the lanes wake the owner. But no event reports room in the queue of rank 0's socket.
  if (state_ == SharedSegmentState::kMaking)
    return phase_ == Phase::kRequesting && !is_root() && context_.lanes[0]->state() != LaneState::kConnecting;
  if (state_ != SharedSegmentState::kReady) return false;
  head().sleepers.fetch_or(own_bit(), std::memory_order_seq_cst);
  if (fences_are_light_) HeavyFence();
  return false;
}

void ShmSharedSegment::Disarm() {
  if (state_ == SharedSegmentState::kReady) head().sleepers.fetch_and(~own_bit(), std::memory_order_seq_cst);
}

}  // namespace rondo::shm
