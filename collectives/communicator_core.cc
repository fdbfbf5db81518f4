// A core's beginning and its ordinary life: creation, issuing, groups. Driving is in communicator_drive.cc, failing and
// ending in communicator_trouble.cc.
#include "collectives/communicator_core.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/random.h"
#include "collectives/algorithms/table.h"
#include "collectives/engine/host_mover.h"
#include "collectives/select.h"

namespace rondo {
namespace {

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
  core->messages_ = std::make_unique<MessageEngine>(
      MessageEngineOptions{.rank = own.rank,
                           .world_size = static_cast<int>(world),
                           .limits = {.eager_message_bytes = own.eager_message_bytes,
                                      .eager_credit_bytes = own.eager_credit_bytes,
                                      .max_announced_messages = own.max_announced_messages,
                                      .body_frame_bytes = std::min(own.frame_bytes, MessageLimits{}.body_frame_bytes),
                                      .offer_from_bytes = own.windows_from_bytes,
                                      .can_offer = own.transport->capabilities().pull}},
      *core->endpoint_);
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
  CallProgressThread();
  return work;
}

void CommunicatorCore::CallProgressThread() {
  if (!options_.progress_thread) return;
  if (progress_running_.exchange(true)) return gate_.Announce();
  try {
    progress_ = std::thread([this] { ProgressThread(); });
  } catch (const std::system_error& error) {
    progress_running_.store(false);
    Poison(Error(ErrorCode::kResource, fmt::format("the progress thread cannot be made: {}", error.what())));
  }
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
