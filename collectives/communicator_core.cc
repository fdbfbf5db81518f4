#include "collectives/communicator_core.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include "base/random.h"
#include "collectives/algorithms/table.h"
#include "collectives/engine/host_mover.h"
#include "collectives/select.h"

namespace rondo {
namespace {

// A lane may break an instant before the control connection tells why (dead, aborted, mismatch): the reason is waited
// for this long before the broken lane itself becomes the error.
constexpr Duration kReasonGrace = std::chrono::milliseconds(300);
// How long a failed communicator that is destroyed waits for its reason to leave, and how often it looks.
constexpr Duration kLastWordsEvery = std::chrono::milliseconds(5);
constexpr int kLastWordsLooks = 100;
// A sleeping driver looks around this often, should nothing wake it.
constexpr Duration kLookAroundEvery = std::chrono::milliseconds(100);

// While spinning. A yield costs about half a microsecond where nobody else wants the core; without any, two ranks that
// the scheduler put on one core spin their whole budget at each other.
constexpr std::uint32_t kPollsBetweenYields = 8;
// While bytes move.
constexpr std::uint32_t kPollsBetweenClockReads = 64;

int UsableCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

int LocalRanks(const CommunicatorOptions& options) {
  const std::string& own = options.peers[static_cast<std::size_t>(options.rank)].host_id;
  return static_cast<int>(std::count_if(options.peers.begin(), options.peers.end(),
                                        [&](const PeerIdentity& peer) { return peer.host_id == own; }));
}

Error WithCulprit(ErrorCode code, std::string message, Rank culprit) {
  return Error(code, std::move(message)).With([&](ErrorDetails& d) { d.culprit = culprit; });
}

// Aliasing that is neither "the same memory" nor "none of it".
bool OverlapInPart(const void* input, const void* output, std::uint64_t bytes) {
  const auto a = reinterpret_cast<std::uintptr_t>(input);
  const auto b = reinterpret_cast<std::uintptr_t>(output);
  return a != b && a < b + bytes && b < a + bytes;
}

}  // namespace

WaitPolicy WaitPolicy::For(int local_ranks, int cores) {
  // Where every rank has a core, polling catches an answer ten times sooner than a wake-up across cores (about 50 us on
  // virtual machines). Where ranks share cores, whoever polls keeps its peer from running: give the core away instead.
  if (local_ranks <= cores) return {.spin = std::chrono::microseconds(200), .yield = {}};
  return {.spin = {}, .yield = std::chrono::microseconds(2000)};
}

// ---- creation ----

CommunicatorCore::CommunicatorCore(CommunicatorOptions options)
    : options_(std::move(options)), plans_(options_.rank, options_.max_cached_plans) {}

Result<std::shared_ptr<CommunicatorCore>> CommunicatorCore::Create(CommunicatorOptions options) {
  const std::size_t world = options.peers.size();
  if (world == 0) return Fail(ErrorCode::kInvalidArgument, "a communicator needs at least one rank in options.peers");
  if (options.rank < 0 || static_cast<std::size_t>(options.rank) >= world)
    return Fail(ErrorCode::kInvalidArgument, "rank {} is outside 0..{}", options.rank, world - 1);
  if (options.transport == nullptr) return Fail(ErrorCode::kInvalidArgument, "options.transport is missing");
  if (options.frame_bytes < kLineBytes || options.frame_bytes % kLineBytes != 0)
    return Fail(ErrorCode::kInvalidArgument, "frame_bytes {} is not a positive multiple of {}", options.frame_bytes,
                kLineBytes);
  if (options.max_pending_operations == 0)
    return Fail(ErrorCode::kInvalidArgument, "max_pending_operations must be at least 1");
  if (options.timeout <= Duration::zero()) return Fail(ErrorCode::kInvalidArgument, "the timeout must be positive");

  std::shared_ptr<CommunicatorCore> core(new CommunicatorCore(std::move(options)));
  CommunicatorOptions& own = core->options_;
  core->clock_ = own.clock != nullptr ? own.clock : std::make_shared<SteadyClock>();
  core->waiter_ = own.waiter != nullptr ? own.waiter : std::make_shared<KernelWaiter>(*core->clock_);
  core->wait_policy_ = own.wait_policy.value_or(WaitPolicy::For(LocalRanks(own), UsableCores()));
  core->mover_ = own.make_mover ? own.make_mover() : std::make_unique<HostMover>();
  core->pending_.resize(own.max_pending_operations);
  core->goodbyes_.resize(world);
  core->standpoints_.resize(world);
  core->said_goodbye_.resize(world);
  if (core->gate_.kick_fd() < 0)
    return Fail(ErrorCode::kResource, "no file descriptor is left for an eventfd (RLIMIT_NOFILE)");

  EndpointConfig config;
  config.communicator = own.id;
  config.rank = own.rank;
  config.observer = core.get();
  config.connect_timeout = own.timeout;
  for (const PeerIdentity& peer : own.peers) config.addresses.push_back(peer.address);
  RONDO_ASSIGN(auto endpoint, own.transport->OpenEndpoint(config));
  {
    const std::lock_guard lock(core->endpoint_mutex_);  // a peer that came first may be heard already
    core->endpoint_ = std::move(endpoint);
  }
  core->engine_ = std::make_unique<Engine>(EngineOptions{.rank = own.rank,
                                                         .world_size = static_cast<int>(world),
                                                         .frame_bytes = own.frame_bytes,
                                                         .max_scratch_bytes = own.max_scratch_bytes,
                                                         .capabilities = own.transport->capabilities(),
                                                         .windows_from_bytes = own.windows_from_bytes},
                                           *core->endpoint_, *core->mover_);
  return core;
}

CommunicatorCore::~CommunicatorCore() { RONDO_CHECK(!progress_.joinable(), "a core outlived its communicator"); }

// ---- issuing ----

Status CommunicatorCore::Check(OperationRequest& request, const OperationOptions& options) const {
  OperationDescriptor& d = request.descriptor;
  const std::size_t element_bytes = SizeOf(d.type);
  if (element_bytes == 0) return Fail(ErrorCode::kInvalidArgument, "{} is no data type", static_cast<int>(d.type));
  if (d.collective == Collective::kAllReduce) RONDO_TRY(CheckPairing(d.type, d.op));
  if (d.root < 0 || d.root >= world_size())
    return Fail(ErrorCode::kInvalidArgument, "root {} is outside 0..{}", d.root, world_size() - 1);
  if (d.count > (std::uint64_t{1} << 62) / element_bytes)
    return Fail(ErrorCode::kInvalidArgument, "count {} of {} is more than memory can hold", d.count, Name(d.type));
  const std::uint64_t bytes = d.count * element_bytes;
  const bool reads_input =
      d.collective == Collective::kAllReduce || (d.collective == Collective::kBroadcast && d.root == rank());
  if (bytes > 0 && request.output == nullptr)
    return Fail(ErrorCode::kInvalidArgument, "output is null, count is {}", d.count);
  if (bytes > 0 && reads_input && request.input == nullptr)
    return Fail(ErrorCode::kInvalidArgument, "input is null, count is {}", d.count);
  if (bytes > 0 && reads_input && OverlapInPart(request.input, request.output, bytes))
    return Fail(ErrorCode::kInvalidArgument, "input and output overlap but are not the same memory");
  request.timeout = options.timeout.value_or(options_.timeout);
  if (request.timeout <= Duration::zero()) return Fail(ErrorCode::kInvalidArgument, "the timeout must be positive");
  request.scale = options.scale;
  d.algorithm = options.algorithm.value_or(Select(d.collective, world_size(), bytes).algorithm);
  if (FindAlgorithm(d.collective, d.algorithm) == nullptr)
    return Fail(ErrorCode::kInvalidArgument, "algorithm {} does not serve {}", Name(d.algorithm), Name(d.collective));
  return {};
}

Result<Sequence> CommunicatorCore::Issue(const OperationRequest& request) {
  if (issuing_.exchange(true, std::memory_order_acquire))
    return Fail(ErrorCode::kInvalidArgument, "two threads issue operations on one communicator at the same time");
  const auto refuse = [&](tl::unexpected<Error> error) {
    issuing_.store(false, std::memory_order_release);
    return error;
  };
  if (poisoned_.load(std::memory_order_acquire)) return refuse(Fail(*failure()));
  if (closing_.load(std::memory_order_acquire))
    return refuse(Fail(ErrorCode::kClosed, "rank {} has closed this communicator", rank()));
  const Sequence sequence = issued_.load(std::memory_order_relaxed) + 1;
  if (sequence - completed_.load(std::memory_order_acquire) > pending_.size())
    return refuse(Fail(ErrorCode::kResource, "{} operations are pending, the limit (max_pending_operations) is {}",
                       pending_.size(), pending_.size()));
  Pending& pending = PendingOf(sequence);
  pending.request = request;
  pending.request.descriptor.sequence = sequence;
  pending.deadline = Later(clock_->Now(), request.timeout);
  issued_.store(sequence, std::memory_order_release);
  issuing_.store(false, std::memory_order_release);
  return sequence;
}

Status CommunicatorCore::Run(OperationRequest request, const OperationOptions& options) {
  RONDO_TRY(Check(request, options));
  RONDO_ASSIGN(const Sequence sequence, Issue(request));
  return WaitForGood(sequence);
}

Work CommunicatorCore::RunAsync(OperationRequest request, const OperationOptions& options) {
  Work work;
  work.core_ = shared_from_this();
  if (Status checked = Check(request, options); !checked) {
    work.refused_ = checked.error();
    return work;
  }
  const Result<Sequence> sequence = Issue(request);
  if (!sequence) {
    work.refused_ = sequence.error();
    return work;
  }
  work.sequence_ = *sequence;
  if (options_.progress_thread) {
    if (!progress_running_.exchange(true)) {
      try {
        progress_ = std::thread([this] { ProgressThread(); });
      } catch (const std::system_error& error) {
        progress_running_.store(false);
        Poison(Error(ErrorCode::kResource, fmt::format("the progress thread cannot be made: {}", error.what())));
      }
    } else {
      gate_.Announce();
    }
  }
  return work;
}

// ---- driving ----

bool CommunicatorCore::Advance() {
  if (endpoint_ == nullptr) return false;  // destroyed, but a Work or a parent's Abort still holds this core
  if (poisoned_.load(std::memory_order_acquire)) {
    if (ended_.load(std::memory_order_relaxed)) {
      endpoint_->Poll(clock_->Now());  // late comers are still heard, and told
      return false;
    }
    EndAfterFailure();
    return true;
  }
  endpoint_->Poll(clock_->Now());
  bool moved = false;
  while (true) {
    if (!engine_->running()) {
      if (completed_.load(std::memory_order_relaxed) == issued_.load(std::memory_order_acquire)) return moved;
      if (Status started = StartNext(); !started) {
        Poison(started.error());
        return true;
      }
      moved = true;
    }
    const Result<Progress> progress = engine_->Poll();
    if (!progress) {
      Poison(progress.error());
      return true;
    }
    if (*progress == Progress::kNothing) return moved;
    still_since_.reset();
    if (*progress == Progress::kMoved) return true;
    trouble_since_.reset();
    completed_.store(completed_.load(std::memory_order_relaxed) + 1);
    gate_.Announce();
    moved = true;
  }
}

Status CommunicatorCore::StartNext() {
  words_seen_ = 0;  // what peers said before this operation is judged again in its light
  const OperationRequest& request = PendingOf(completed_.load(std::memory_order_relaxed) + 1).request;
  const OperationDescriptor& d = request.descriptor;
  const bool reads_input =
      d.collective == Collective::kAllReduce || (d.collective == Collective::kBroadcast && d.root == rank());
  RONDO_ASSIGN(const Plan* plan,
               plans_.Get({.collective = d.collective,
                           .algorithm = d.algorithm,
                           .world_size = world_size(),
                           .root = d.root,
                           .in_place = !reads_input || request.input == request.output,
                           .scaled = d.collective == Collective::kAllReduce && d.op == ReduceOp::kPremulSum}));
  return engine_->Start(
      *plan, d, {static_cast<const std::byte*>(request.input), static_cast<std::byte*>(request.output)}, request.scale);
}

void CommunicatorCore::EndAfterFailure() {
  // The order matters: first nobody can reach the buffers, then the waiters learn that they are theirs again.
  endpoint_->Revoke();
  const std::vector<Standing> waiting = engine_->Waiting();
  const bool running = engine_->running();
  engine_->Drain();
  {
    const std::lock_guard lock(mutex_);
    failure_ = failure_->With([&](ErrorDetails& d) {
      d.rank = rank();
      if (!running) return;
      if (d.collective.empty()) d.collective = engine_->operation().ToString();
      if (!d.sequence) d.sequence = engine_->operation().sequence;
      auto at = std::find_if(waiting.begin(), waiting.end(), [&](const Standing& s) { return s.peer == d.culprit; });
      if (at == waiting.end()) at = waiting.begin();
      if (at == waiting.end() || d.step) return;
      d.step = at->step;
      d.bytes_done = at->bytes_done;
      d.bytes_due = at->bytes_due;
    });
  }
  ended_.store(true);
  gate_.Announce();
}

bool CommunicatorCore::LookForTrouble(TimePoint now, Sequence waited) {
  if (poisoned_.load(std::memory_order_acquire)) return false;
  if (words_.load(std::memory_order_acquire) != words_seen_ && LookAtPeers()) return true;

  if (const auto trouble = engine_->FindTrouble()) {
    if (!trouble_since_) trouble_since_ = now;
    if (now - *trouble_since_ >= kReasonGrace) {
      const Error error =
          trouble->error != nullptr
              ? *trouble->error
              : Error(ErrorCode::kConnectionReset,
                      fmt::format("rank {} ended its lane to rank {} while bytes are due", trouble->peer, rank()));
      Poison(error.With([&](ErrorDetails& d) { d.culprit = trouble->peer; }));
      return true;
    }
  }
  if (!still_since_) still_since_ = now;
  if (now - *still_since_ >= kLookAroundEvery) {
    if (auto stranger = engine_->FindStranger()) {
      Poison(*std::move(stranger));
      return true;
    }
    SayWhereWeStand();
    still_since_ = now;
  }
  return LookAtDeadlines(now, waited);
}

bool CommunicatorCore::LookAtDeadlines(TimePoint now, Sequence waited) {
  const Sequence issued = issued_.load(std::memory_order_acquire);
  const Sequence first = completed_.load(std::memory_order_relaxed) + 1;
  const auto expired = [&](Sequence sequence) {
    return sequence >= first && sequence <= issued && now >= PendingOf(sequence).deadline;
  };
  std::optional<Sequence> late;
  if (expired(first)) {
    late = first;
  } else if (expired(waited)) {
    late = waited;
  } else if (now >= next_deadline_look_) {
    // Operations further back may have shorter timeouts than those before them.
    next_deadline_look_ = now + kLookAroundEvery;
    for (Sequence sequence = first; sequence <= issued && !late; ++sequence)
      if (expired(sequence)) late = sequence;
  }
  if (late) Poison(Expired(PendingOf(*late)));
  return late.has_value();
}

Error CommunicatorCore::Disagreement(Rank peer, const OperationDescriptor& own,
                                     const OperationDescriptor& theirs) const {
  return WithCulprit(ErrorCode::kMismatch,
                     fmt::format("the ranks disagree: rank {} is in operation #{} {}, rank {} in operation #{} {}",
                                 rank(), own.sequence, own.ToString(), peer, theirs.sequence, theirs.ToString()),
                     peer);
}

bool CommunicatorCore::LookAtPeers() {
  if (!engine_->running()) return false;
  words_seen_ = words_.load(std::memory_order_acquire);
  const OperationDescriptor& own = engine_->operation();
  for (Rank peer = 0; peer < world_size(); ++peer) {
    std::optional<Goodbye> goodbye;
    std::optional<Standpoint> standpoint;
    {
      const std::lock_guard lock(mutex_);
      goodbye = goodbyes_[static_cast<std::size_t>(peer)];
      standpoint = standpoints_[static_cast<std::size_t>(peer)];
    }
    for (const OperationDescriptor* theirs :
         {goodbye ? &goodbye->last : nullptr, standpoint ? &standpoint->current : nullptr}) {
      if (theirs == nullptr || theirs->sequence != own.sequence || *theirs == own) continue;
      Poison(Disagreement(peer, own, *theirs));
      return true;
    }
    if (goodbye && goodbye->last.sequence < own.sequence && engine_->WaitsFor(peer)) {
      Poison(WithCulprit(
          ErrorCode::kClosed,
          fmt::format("rank {} closed after #{} {}, but rank {} waits for it in #{} {}", peer, goodbye->last.sequence,
                      goodbye->last.sequence == 0 ? "(no operation)" : goodbye->last.ToString(), rank(), own.sequence,
                      own.ToString()),
          peer));
      return true;
    }
  }
  return false;
}

void CommunicatorCore::SayWhereWeStand() {
  if (!engine_->running()) return;
  const ControlMessage message{ControlKind::kHeartbeat, Encode(Standpoint{engine_->operation()})};
  for (const Rank peer : endpoint_->ControlPeers()) endpoint_->SendControl(peer, message);
}

Error CommunicatorCore::Expired(const Pending& operation) const {
  std::vector<std::string> missing;
  Rank culprit = kNoRank;
  for (const Standing& standing : engine_->Waiting()) {
    if (culprit == kNoRank) culprit = standing.peer;
    missing.push_back(standing.started
                          ? fmt::format("rank {} ({} of {} bytes of step {} {})", standing.peer, standing.bytes_done,
                                        standing.bytes_due, standing.step, standing.sending ? "sent" : "arrived")
                          : fmt::format("rank {} (nothing of this operation {}; {})", standing.peer,
                                        standing.sending ? "could be sent" : "arrived",
                                        endpoint_->DescribePeer(standing.peer)));
  }
  const OperationDescriptor& d = operation.request.descriptor;
  return WithCulprit(
      ErrorCode::kTimeout,
      fmt::format("#{} {} did not end within {:.3f} s: rank {} waits for {}", d.sequence, d.ToString(),
                  std::chrono::duration<double>(operation.request.timeout).count(), rank(),
                  missing.empty() ? std::string("an earlier operation") : fmt::format("{}", fmt::join(missing, ", "))),
      culprit);
}

// ---- waiting ----

template <typename Ready>
void CommunicatorCore::Drive(TimePoint until, Sequence waited, bool background, Ready ready) {
  // REQUIRES ownership; gives it up in every way out.
  if (std::exchange(armed_, false)) endpoint_->Disarm();
  std::optional<TimePoint> idle_since;
  std::uint32_t idle_polls = 0, moved_polls = 0;
  while (true) {
    const bool moved = Advance();
    if (ready() || (background && waiters_.load() > 0)) break;
    if (moved) {
      idle_since.reset();
      idle_polls = 0;
      // A long operation on a slow machine may always have something to move.
      if (++moved_polls % kPollsBetweenClockReads == 0) {
        const TimePoint now = clock_->Now();
        if (now >= until) break;
        if (!poisoned_.load(std::memory_order_acquire)) LookAtDeadlines(now, waited);
      }
      continue;
    }
    const TimePoint now = clock_->Now();
    if (!idle_since) idle_since = now;
    if (LookForTrouble(now, waited)) continue;
    if (now >= until) break;
    const Duration idle = now - *idle_since;
    if (idle < wait_policy_.spin) {
      // The peer may have been put on this very core: then only giving it away lets the bytes come.
      if (++idle_polls % kPollsBetweenYields == 0) waiter_->Yield();
      continue;
    }
    if (idle < wait_policy_.spin + wait_policy_.yield) {
      waiter_->Yield();
      continue;
    }

    if (engine_->MoverBusy()) {  // nothing would wake a sleeper when the mover is done
      waiter_->Yield();
      continue;
    }
    if (endpoint_->Arm()) {
      endpoint_->Disarm();
      continue;
    }
    armed_ = true;
    TimePoint wake = std::min(until, now + kLookAroundEvery);
    const Sequence current = completed_.load(std::memory_order_relaxed) + 1;
    if (current <= issued_.load(std::memory_order_acquire)) wake = std::min(wake, PendingOf(current).deadline);
    if (!gate_.LeaveToSleep()) {
      gate_.Park(wake, [&] { return ready() || (background && waiters_.load() > 0); });
    } else {
      waiter_->Sleep(*endpoint_, gate_.kick_fd(), wake);
      gate_.EndSleep();
    }
    if (!gate_.TryEnter()) return;
    if (std::exchange(armed_, false)) endpoint_->Disarm();
    idle_since.reset();
  }
  gate_.Leave();
}

template <typename Ready>
bool CommunicatorCore::DriveUntil(TimePoint until, Sequence waited, Ready ready) {
  waiters_.fetch_add(1);
  bool final;
  while (!(final = ready())) {
    if (gate_.TryEnter()) {
      Drive(until, waited, /*background=*/false, ready);
    } else {
      gate_.Park(until, ready);
    }
    if (!(final = ready()) && clock_->Now() >= until) break;
    if (final) break;
  }
  waiters_.fetch_sub(1);
  // The progress thread stood back; what is left is its business again.
  if (progress_running_.load(std::memory_order_relaxed)) gate_.Announce();
  // Callbacks run with nothing held, and while the progress thread drives again: they may wait for other operations.
  if (callback_count_.load(std::memory_order_acquire) > 0) RunCallbacks();
  return final;
}

Status CommunicatorCore::WaitFor(Sequence sequence, TimePoint until) {
  const bool final = DriveUntil(until, sequence, [&] { return completed_.load() >= sequence || ended_.load(); });
  if (completed_.load() >= sequence) return {};
  if (!final) return Fail(ErrorCode::kNotReady, "operation #{} is still under way", sequence);
  return Fail(*failure());
}

Status CommunicatorCore::WaitForGood(Sequence sequence) { return WaitFor(sequence, TimePoint::max()); }

std::optional<Status> CommunicatorCore::FinalStatus(Sequence sequence) const {
  if (completed_.load() >= sequence) return Status{};
  if (ended_.load()) return Status(Fail(*failure()));
  return std::nullopt;
}

bool CommunicatorCore::ProgressOnce() {
  if (!gate_.TryEnter()) return false;
  if (std::exchange(armed_, false)) endpoint_->Disarm();
  const bool advanced = Advance();
  const TimePoint now = clock_->Now();
  const bool moved =
      endpoint_ != nullptr && !ended_.load() && (advanced ? (LookAtDeadlines(now, 0), true) : LookForTrouble(now, 0));
  gate_.Leave();
  if (callback_count_.load(std::memory_order_acquire) > 0) RunCallbacks();
  return moved;
}

void CommunicatorCore::Then(Sequence sequence, std::function<void(const Status&)> done) {
  {
    const std::lock_guard lock(mutex_);
    callbacks_.push_back({sequence, std::move(done)});
    callback_count_.store(callbacks_.size(), std::memory_order_release);
  }
  RunCallbacks();
}

void CommunicatorCore::RunCallbacks() {
  while (true) {
    std::optional<Callback> due;
    {
      const std::lock_guard lock(mutex_);
      const auto at = std::find_if(callbacks_.begin(), callbacks_.end(), [&](const Callback& callback) {
        return completed_.load() >= callback.sequence || ended_.load();
      });
      if (at == callbacks_.end()) return;
      due = std::move(*at);
      callbacks_.erase(at);
      callback_count_.store(callbacks_.size(), std::memory_order_release);
    }
    due->done(*FinalStatus(due->sequence));
  }
}

void CommunicatorCore::ProgressThread() {
  const auto has_work = [&] {
    return waiters_.load() == 0 && !ended_.load() &&
           (issued_.load(std::memory_order_acquire) > completed_.load() || poisoned_.load());
  };
  const auto stopped = [&] {
    const std::lock_guard lock(mutex_);
    return stop_;
  };
  while (!stopped()) {
    gate_.ParkUntil([&] { return has_work() || stopped(); });
    if (stopped()) return;
    const Sequence last = issued_.load(std::memory_order_acquire);
    const auto ready = [&] { return completed_.load() >= last || ended_.load() || stopped(); };
    if (gate_.TryEnter()) {
      Drive(TimePoint::max(), last, /*background=*/true, ready);
      if (callback_count_.load(std::memory_order_acquire) > 0) RunCallbacks();
    } else {
      gate_.Park(clock_->Now() + kLookAroundEvery, ready);
    }
  }
}

// ---- failure ----

Error CommunicatorCore::WithIdentity(Error error) const {
  const Rank culprit = error.culprit();
  if (culprit < 0 || culprit >= world_size() || !error.details().host.empty()) return error;
  return error.With([&](ErrorDetails& d) { d.host = options_.peers[static_cast<std::size_t>(culprit)].host; });
}

void CommunicatorCore::Poison(Error error) {
  error = WithIdentity(std::move(error));
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = error;
    poisoned_.store(true, std::memory_order_release);
  }
  const ControlMessage notice{ControlKind::kAbort, Encode(NoticeOf(error, rank()))};
  {
    const std::lock_guard lock(endpoint_mutex_);
    if (endpoint_ == nullptr) return;
    for (const Rank peer : endpoint_->ControlPeers()) endpoint_->SendControl(peer, notice);
    endpoint_->Wake();
  }
  gate_.Announce();
}

void CommunicatorCore::OnControl(Rank from, ControlMessage message) {
  switch (message.kind) {
    case ControlKind::kHeartbeat: {
      // Whoever speaks to a communicator that has failed already, a late comer say, is told why.
      if (const auto failed = failure()) {
        const std::lock_guard lock(endpoint_mutex_);
        if (endpoint_ == nullptr) return;
        endpoint_->SendControl(from, {ControlKind::kAbort, Encode(NoticeOf(*failed, rank()))});
        return;
      }
      const auto standpoint = DecodeStandpoint(message.body);
      if (!standpoint) return;  // a greeting
      {
        const std::lock_guard lock(mutex_);
        standpoints_[static_cast<std::size_t>(from)] = standpoint;
      }
      words_.fetch_add(1, std::memory_order_release);
      return;
    }
    case ControlKind::kGoodbye: {
      const auto goodbye = DecodeGoodbye(message.body);
      if (!goodbye) break;
      {
        const std::lock_guard lock(mutex_);
        goodbyes_[static_cast<std::size_t>(from)] = goodbye;
      }
      words_.fetch_add(1, std::memory_order_release);
      {
        const std::lock_guard lock(endpoint_mutex_);
        if (endpoint_ == nullptr) return;
        endpoint_->Wake();
      }
      gate_.Announce();
      return;
    }
    case ControlKind::kAbort: {
      const auto notice = DecodeAbortNotice(message.body);
      if (!notice) break;
      Poison(ErrorOf(*notice, rank()));
      return;
    }
  }
  Poison(WithCulprit(ErrorCode::kProtocol, fmt::format("rank {} sent an unreadable control message", from), from));
}

void CommunicatorCore::OnPeerLost(Rank peer, Error error) {
  Poison(error.With([&](ErrorDetails& d) { d.culprit = peer; }));
}

std::optional<Error> CommunicatorCore::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

// ---- ending ----

void CommunicatorCore::Abort(std::string_view reason) {
  std::vector<std::shared_ptr<CommunicatorCore>> children;
  {
    const std::lock_guard lock(mutex_);
    for (const std::weak_ptr<CommunicatorCore>& child : children_)
      if (auto core = child.lock()) children.push_back(std::move(core));
  }
  Poison(WithCulprit(ErrorCode::kAborted, fmt::format("rank {} aborted: {}", rank(), reason), rank()));
  for (const auto& child : children) child->Abort(reason);
  ProgressOnce();  // where nobody drives, end here and now; where somebody does, he has been woken
}

void CommunicatorCore::SayGoodbye() {
  Goodbye goodbye;
  if (const Sequence last = completed_.load(); last > 0) goodbye.last = PendingOf(last).request.descriptor;
  const ControlMessage message{ControlKind::kGoodbye, Encode(goodbye)};
  for (const Rank peer : endpoint_->ControlPeers()) {
    {
      const std::lock_guard lock(mutex_);
      if (said_goodbye_[static_cast<std::size_t>(peer)]) continue;
    }
    if (!endpoint_->SendControl(peer, message)) continue;
    const std::lock_guard lock(mutex_);
    said_goodbye_[static_cast<std::size_t>(peer)] = true;
  }
}

std::optional<Error> CommunicatorCore::FindOddGoodbye() {
  const Sequence last = completed_.load();
  const OperationDescriptor own = last > 0 ? PendingOf(last).request.descriptor : OperationDescriptor{};
  const std::lock_guard lock(mutex_);
  for (Rank peer = 0; peer < world_size(); ++peer) {
    const auto& goodbye = goodbyes_[static_cast<std::size_t>(peer)];
    if (goodbye && goodbye->last != own) return Disagreement(peer, own, goodbye->last);
  }
  return std::nullopt;
}

std::vector<Rank> CommunicatorCore::NotParted() const {
  // Whom we said goodbye to counts even when the connection is gone by now.
  std::vector<Rank> missing = endpoint_->ControlPeers();
  const std::lock_guard lock(mutex_);
  for (Rank peer = 0; peer < world_size(); ++peer)
    if (said_goodbye_[static_cast<std::size_t>(peer)]) missing.push_back(peer);
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  std::erase_if(missing, [&](Rank peer) { return goodbyes_[static_cast<std::size_t>(peer)].has_value(); });
  return missing;
}

Status CommunicatorCore::Close() {
  {
    const std::lock_guard lock(mutex_);
    if (close_status_) return *close_status_;
  }
  closing_.store(true, std::memory_order_release);
  const TimePoint until = Later(clock_->Now(), options_.timeout);
  Status status = WaitFor(issued_.load(std::memory_order_acquire), until);
  if (status) {
    const bool parted = DriveUntil(until, 0, [&] {
      if (poisoned_.load()) return ended_.load();
      SayGoodbye();  // a peer that connected to us only now is greeted too
      return NotParted().empty();
    });
    // Operations that only sent have returned without looking at anybody: here they are compared.
    if (const auto odd = FindOddGoodbye(); parted && odd && !poisoned_.load()) {
      Poison(*odd);
      DriveUntil(until, 0, [&] { return ended_.load(); });
    }
    if (poisoned_.load()) {
      status = Fail(*failure());
    } else if (!parted) {
      status = Fail(ErrorCode::kTimeout, "rank {} waited {:.3f} s for others to close too; missing: rank {}", rank(),
                    std::chrono::duration<double>(options_.timeout).count(), fmt::join(NotParted(), ", "));
    }
  } else if (status.error().code() == ErrorCode::kNotReady) {
    status = Fail(ErrorCode::kTimeout, "operations were still under way at the end of Close's timeout");
  }
  while (!gate_.TryEnter()) gate_.Park(clock_->Now() + kLookAroundEvery, [] { return false; });
  endpoint_->ShutDown();
  gate_.Leave();
  const std::lock_guard lock(mutex_);
  close_status_ = status;
  return status;
}

void CommunicatorCore::Destroy() {
  bool parted;
  {
    const std::lock_guard lock(mutex_);
    parted = close_status_ && close_status_->has_value();
  }
  if (!parted)
    Poison(WithCulprit(ErrorCode::kAborted,
                       fmt::format("rank {} destroyed its communicator without closing it", rank()), rank()));
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  gate_.Announce();
  if (progress_.joinable()) progress_.join();
  // Whatever was pending ends before the endpoint goes.
  while (!gate_.TryEnter()) gate_.Park(clock_->Now() + kLookAroundEvery, [] { return false; });
  if (poisoned_.load() && !ended_.load()) EndAfterFailure();
  // A connection that was still being made when the reason was sent gets a moment to carry it.
  for (int look = 0; poisoned_.load() && !endpoint_->ControlFlushed() && look < kLastWordsLooks; ++look)
    gate_.Park(clock_->Now() + kLastWordsEvery, [] { return false; });
  armed_ = false;
  std::unique_ptr<Endpoint> endpoint;
  {
    const std::lock_guard lock(endpoint_mutex_);
    endpoint = std::move(endpoint_);
  }
  endpoint.reset();  // outside the lock: it waits for calls of OnControl and OnPeerLost, which take it
  gate_.Leave();
  RunCallbacks();
}

// ---- the rest ----

Result<std::shared_ptr<CommunicatorCore>> CommunicatorCore::Split(int color, int key) {
  // Everybody tells everybody its color and key by a sum to which each contributes its own entry.
  const auto world = static_cast<std::size_t>(world_size());
  std::vector<std::int64_t> table(2 * world, 0);
  table[2 * static_cast<std::size_t>(rank())] = color;
  table[2 * static_cast<std::size_t>(rank()) + 1] = key;
  OperationRequest request;
  request.descriptor = {
      .count = table.size(), .collective = Collective::kAllReduce, .type = DataType::kInt64, .op = ReduceOp::kSum};
  request.input = request.output = table.data();
  RONDO_TRY(Run(request, {}));
  ++splits_;
  if (color < 0) return std::shared_ptr<CommunicatorCore>();

  struct Place {
    std::int64_t key;
    Rank rank;
  };
  std::vector<Place> places;
  for (Rank r = 0; r < world_size(); ++r)
    if (table[2 * static_cast<std::size_t>(r)] == color)
      places.push_back({table[2 * static_cast<std::size_t>(r) + 1], r});
  std::stable_sort(places.begin(), places.end(), [](const Place& a, const Place& b) { return a.key < b.key; });

  CommunicatorOptions options = options_;
  options.peers.clear();
  for (const Place& place : places) {
    if (place.rank == rank()) options.rank = static_cast<Rank>(options.peers.size());
    options.peers.push_back(options_.peers[static_cast<std::size_t>(place.rank)]);
  }
  // The same on all members, different for every split and color of this parent.
  Random mix(options_.id ^ (splits_ << 32) ^ static_cast<std::uint64_t>(color));
  options.id = mix.Next();
  options.wait_policy = wait_policy_;  // the parent's ranks share the cores, whatever group they are in
  RONDO_ASSIGN(auto child, Create(std::move(options)));
  std::optional<Error> failed;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(children_, [](const auto& weak) { return weak.expired(); });
    children_.push_back(child);
    failed = failure_;
  }
  // An Abort of this communicator that came a moment too early to find the child.
  if (failed && failed->code() == ErrorCode::kAborted) child->Poison(*failed);
  return child;
}

std::string CommunicatorCore::DescribePaths() const {
  std::string text;
  for (const Rank peer : endpoint_->ControlPeers())
    text += fmt::format("rank {} ({}): {}\n", peer, options_.peers[static_cast<std::size_t>(peer)].host,
                        endpoint_->DescribePeer(peer));
  return text;
}

}  // namespace rondo
