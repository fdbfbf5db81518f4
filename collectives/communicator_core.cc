// Creates a core and runs its ordinary operations. communicator_end.cc ends it, communicator_split.cc makes groups.
#include "collectives/communicator_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/net/descriptors.h"
#include "base/service_thread.h"
#include "base/tasks.h"
#include "collectives/cpu_list.h"
#include "collectives/engine/host_mover.h"
#include "transport/rail.h"

namespace rondo {
namespace {

int LocalRanks(const CommunicatorOptions& options) {
  const std::string& own = options.peers[static_cast<std::size_t>(options.rank)].host_id;
  return static_cast<int>(std::count_if(options.peers.begin(), options.peers.end(),
                                        [&](const PeerIdentity& peer) { return peer.host_id == own; }));
}

ProgressOptions ProgressOptionsOf(const CommunicatorOptions& options) {
  const int local_ranks = LocalRanks(options);
  int cores = options.peers[static_cast<std::size_t>(options.rank)].cores;
  if (cores == 0) cores = CountCpus({UsableCpus()});
  if (cores == 0) cores = local_ranks;  // unknown: assumed to suffice
  const bool sleeps = options.transport->capabilities().moves_on_cores;
  const GracePeriods graces;
  ProgressOptions progress{.policy = options.wait_policy.value_or(WaitPolicy::For(local_ranks, cores, sleeps)),
                           .shared_core_policy = WaitPolicy::YieldsAtOnce(),
                           .has_thread = options.progress_thread,
                           .pause = graces.process_pause,
                           .heartbeat_interval = graces.heartbeat_interval};
  // If ranks move bytes on the cores of this host, they do so while this thread yields, too. A long yield then does not
  // show that other programs use the core. So the policy for a shared core is the normal policy, or to sleep at once if
  // ranks outnumber cores.
  if (sleeps) progress.shared_core_policy = local_ranks > cores ? WaitPolicy{} : progress.policy;
  return progress;
}

// Number of each rank's host, in order of first appearance. A rank without a host id counts as alone on its host.
std::vector<int> HostsOf(const std::vector<PeerIdentity>& peers) {
  std::vector<int> hosts;
  int known = 0;
  for (std::size_t rank = 0; rank < peers.size(); ++rank) {
    const auto same =
        std::find_if(peers.begin(), peers.begin() + static_cast<std::ptrdiff_t>(rank),
                     [&](const auto& p) { return !p.host_id.empty() && p.host_id == peers[rank].host_id; });
    hosts.push_back(same - peers.begin() < static_cast<std::ptrdiff_t>(rank)
                        ? hosts[static_cast<std::size_t>(same - peers.begin())]
                        : known++);
  }
  return hosts;
}

// For each host, uses the number of cores that its first rank reports; a rank that does not know the number is skipped.
Topology TopologyOf(std::vector<int> hosts, const std::vector<PeerIdentity>& peers) {
  Topology topology{std::move(hosts), {}};
  topology.cores.resize(static_cast<std::size_t>(topology.host_count()), 0);
  for (std::size_t rank = 0; rank < peers.size(); ++rank) {
    int& cores = topology.cores[static_cast<std::size_t>(topology.hosts[rank])];
    if (cores == 0) cores = peers[rank].cores;
  }
  return topology;
}

std::vector<std::string> HostNamesOf(const std::vector<PeerIdentity>& peers) {
  std::vector<std::string> hosts;
  for (const PeerIdentity& peer : peers) hosts.push_back(peer.host);
  return hosts;
}

CommunicatorOptions WithProfile(CommunicatorOptions&& options) {
  if (options.profile == nullptr) options.profile = DefaultProfile();
  return std::move(options);
}

// The record that ranks compare when they define an operation: index, commutativity, length of the name, name.
constexpr std::size_t kDefinitionBytes = 3 + kMaxUserOperationNameBytes;
using Definition = std::array<char, kDefinitionBytes>;

Definition Pack(std::size_t index, const UserOperation& operation) {
  Definition packed{};
  packed[0] = static_cast<char>(index);
  packed[1] = operation.commutative ? 1 : 0;
  packed[2] = static_cast<char>(operation.name.size());
  std::copy(operation.name.begin(), operation.name.end(), packed.begin() + 3);
  return packed;
}

std::string InWords(const Definition& packed) {
  return fmt::format("{} '{}' ({})", Name(UserOp(packed[0])),
                     std::string_view(packed.data() + 3, static_cast<std::size_t>(packed[2])),
                     packed[1] != 0 ? "commutative" : "not commutative");
}

}  // namespace

// ---- creation ----

CommunicatorCore::CommunicatorCore(CommunicatorOptions options, GroupName group)
    : options_(WithProfile(std::move(options))),
      group_(std::move(group)),
      clock_(options_.clock != nullptr ? options_.clock : std::make_shared<SteadyClock>()),
      waiter_(options_.waiter != nullptr ? options_.waiter : std::make_shared<KernelWaiter>(*clock_)),
      names_(options_.rank, HostNamesOf(options_.peers), options_.frame),
      current_({.rank = options_.rank,
                .world_size = static_cast<int>(options_.peers.size()),
                .max_cached_plans = options_.max_cached_plans,
                .max_scratch_bytes = options_.max_scratch_bytes,
                .checksums = options_.checksums,
                .device_peers = options_.device_peers,
                .gpu_timeslice_staging_max_bytes = options_.gpu_timeslice_staging_max_bytes,
                .device_window_bytes = options_.device_window_bytes,
                .logger = options_.logger},
               {.names = names_, .checker = checker_, .endpoint = endpoint_, .device = device_}),
      suspicion_(options_.rank, static_cast<int>(options_.peers.size())),
      progress_(ProgressOptionsOf(options_), operation_progress_, callbacks_, *clock_, *waiter_),
      checker_(options_.rank, static_cast<int>(options_.peers.size()),
               {.timeout = options_.timeout,
                .reproducible = options_.reproducible,
                .fp32_accumulate = options_.fp32_accumulate,
                .compare_results = options_.compare_results,
                .max_pending_operations = options_.max_pending_operations},
               options_.profile, TopologyOf(HostsOf(options_.peers), options_.peers)),
      queue_(options_.rank, static_cast<int>(options_.peers.size()), options_.max_pending_operations),
      peers_(options_.rank, static_cast<int>(options_.peers.size())),
      failure_(names_, peers_, endpoint_, *clock_, *this),
      graphs_(options_.rank, failure_, progress_.lock(), suspicion_.graces()),
      messages_({.world_size = static_cast<int>(options_.peers.size()),
                 .timeout = options_.timeout,
                 .max_pending = options_.max_pending_messages},
                {.names = names_,
                 .clock = *clock_,
                 .graphs = graphs_,
                 .peers = peers_,
                 .peer_events = peer_events_,
                 .records = records_,
                 .progress = progress_,
                 .callbacks = callbacks_,
                 .suspicion = suspicion_,
                 .failure = failure_}),
      peer_events_(options_.id, names_, peers_, failure_, messages_.submissions(), options_.kept_goodbyes, *clock_,
                   *this),
      detector_(options_.rails > 1, {.names = names_,
                                     .endpoint = endpoint_,
                                     .queue = queue_,
                                     .current = current_,
                                     .messages = messages_,
                                     .peers = peers_,
                                     .peer_events = peer_events_,
                                     .graphs = graphs_,
                                     .suspicion = suspicion_,
                                     .failure = failure_,
                                     .listener = *this}),
      closing_({.id = options_.id,
                .timeout = options_.timeout,
                .kept_goodbyes = options_.kept_goodbyes,
                .logger = options_.logger},
               {.names = names_,
                .clock = *clock_,
                .endpoint = endpoint_,
                .queue = queue_,
                .current = current_,
                .messages = messages_,
                .peers = peers_,
                .suspicion = suspicion_,
                .detector = detector_,
                .graphs = graphs_,
                .progress = progress_,
                .failure = failure_}),
      streams_({.names = names_,
                .clock = *clock_,
                .queue = queue_,
                .current = current_,
                .lock = progress_.lock(),
                .failure = failure_,
                .device = device_,
                .logger = options_.logger}),
      devices_({.rank = options_.rank,
                .world_size = static_cast<int>(options_.peers.size()),
                .device = options_.device,
                .device_peers = options_.device_peers,
                .transport = options_.transport,
                .logger = options_.logger},
               {.names = names_,
                .clock = *clock_,
                .queue = queue_,
                .checker = checker_,
                .current = current_,
                .device = device_,
                .streams = streams_,
                .graphs = graphs_,
                .failure = failure_,
                .issuer = issuer_}),
      operation_progress_({.names = names_,
                           .endpoint = endpoint_,
                           .current = current_,
                           .queue = queue_,
                           .messages = messages_,
                           .suspicion = suspicion_,
                           .records = records_,
                           .callbacks = callbacks_,
                           .progress = progress_,
                           .detector = detector_,
                           .streams = streams_,
                           .device = device_,
                           .failure = failure_,
                           .waiter = *waiter_,
                           .listener = *this}),
      issuer_({.names = names_,
               .clock = *clock_,
               .queue = queue_,
               .checker = checker_,
               .devices = devices_,
               .device = device_,
               .streams = streams_,
               .records = records_,
               .current = current_,
               .graphs = graphs_,
               .progress = progress_,
               .operations = operation_progress_,
               .closing = closing_,
               .failure = failure_}),
      record_writer_({.job = options_.job,
                      .generation = options_.generation,
                      .host = options_.peers[static_cast<std::size_t>(options_.rank)].host,
                      .host_id = options_.peers[static_cast<std::size_t>(options_.rank)].host_id,
                      .pid = options_.peers[static_cast<std::size_t>(options_.rank)].pid,
                      .folder = options_.record_dir,
                      .frame = options_.frame,
                      .logger = options_.logger},
                     {.names = names_,
                      .clock = *clock_,
                      .endpoint = endpoint_,
                      .queue = queue_,
                      .records = records_,
                      .failure = failure_}) {}

Status CommunicatorCore::CheckRails(std::int64_t rails, std::int64_t first_rail) {
  if (rails < 1 || rails > kMaxRails)
    return Fail(ErrorCode::kInvalidArgument, "rails is {}; expected 1 to {}", rails, kMaxRails);
  if (first_rail >= kMaxRails)
    return Fail(ErrorCode::kInvalidArgument, "first_rail is {}; it must be below {}", first_rail, kMaxRails);
  return {};
}

Result<std::shared_ptr<CommunicatorCore>> CommunicatorCore::Create(CommunicatorOptions options, GroupName group) {
  const std::size_t world = options.peers.size();
  if (world == 0) return Fail(ErrorCode::kInvalidArgument, "a communicator needs at least one rank in options.peers");
  if (options.rank < 0 || static_cast<std::size_t>(options.rank) >= world)
    return Fail(ErrorCode::kInvalidArgument, "rank {} is outside 0..{}", options.rank, world - 1);
  if (options.transport == nullptr) return Fail(ErrorCode::kInvalidArgument, "options.transport is missing");
  if (options.frame_bytes < kLineBytes || options.frame_bytes % kLineBytes != 0)
    return Fail(ErrorCode::kInvalidArgument, "frame_bytes is {}; expected a positive multiple of {}",
                options.frame_bytes, kLineBytes);
  RONDO_TRY(CheckRails(options.rails, options.first_rail));
  if (options.max_pending_operations == 0)
    return Fail(ErrorCode::kInvalidArgument, "max_pending_operations must be at least 1");
  if (options.timeout <= Duration::zero()) return Fail(ErrorCode::kInvalidArgument, "the timeout must be positive");
  if (options.frame != nullptr && options.frame->ranks.size() != world)
    return Fail(ErrorCode::kInvalidArgument, "the frame of group {} names {} ranks, but the group has {}",
                options.frame->group, options.frame->ranks.size(), world);

  return OrOutOfMemory("making a communicator", [&] { return Make(std::move(options), std::move(group)); });
}

Result<std::shared_ptr<CommunicatorCore>> CommunicatorCore::Make(CommunicatorOptions&& options, GroupName&& group) {
  const std::size_t world = options.peers.size();
  std::shared_ptr<CommunicatorCore> core(new CommunicatorCore(std::move(options), std::move(group)));
  CommunicatorOptions& own = core->options_;
  own.report.generation = own.generation;
  if (core->group_.ranks.empty() && own.frame != nullptr) {
    core->group_.ranks = own.frame->ranks;
    core->group_.description = fmt::format("group {}", own.frame->group);
  } else if (core->group_.ranks.empty()) {
    core->group_.ranks.resize(world);
    std::iota(core->group_.ranks.begin(), core->group_.ranks.end(), 0);
  }
  if (own.recorded_operations > 0) {
    RONDO_ASSIGN(auto recorder, FlightRecorder::Create(own.recorded_operations));
    core->records_.Start(std::move(recorder));
  }
  std::vector<std::unique_ptr<UserOperationMover>> movers;  // by rail
  std::vector<DeviceReadingMover*> readers;                 // pointers into `movers`
  for (std::uint32_t rail = 0; rail < own.rails; ++rail) {
    std::unique_ptr<Mover> mover = own.make_mover ? own.make_mover() : std::make_unique<HostMover>();
    if (own.device != nullptr && own.transport->device_registrar() != nullptr) {
      auto reading = std::make_unique<DeviceReadingMover>(std::move(mover));
      readers.push_back(reading.get());
      mover = std::move(reading);
    }
    movers.push_back(std::make_unique<UserOperationMover>(std::move(mover)));
  }
  if (core->progress_.lock().kick_fd() < 0)
    return Fail(ErrorCode::kResource, "cannot create an eventfd for a communicator: {}",
                SystemWords(core->progress_.lock().kick_error()));

  EndpointConfig config;
  config.communicator = own.id;
  config.rail = own.first_rail;
  config.rank = own.rank;
  config.observer = &core->peer_events_;
  config.connect_timeout = own.timeout;
  config.frame = own.frame;
  for (const PeerIdentity& peer : own.peers) config.addresses.push_back(peer.address);
  RONDO_ASSIGN(auto endpoint, own.transport->OpenEndpoint(config));
  // If a peer has connected early, the endpoint may have called peer_events_ before this line.
  core->endpoint_.Set(std::move(endpoint));
  core->current_.Open({.rank = own.rank,
                       .world_size = static_cast<int>(world),
                       .frame_bytes = own.frame_bytes,
                       .max_scratch_bytes = own.max_scratch_bytes,
                       .capabilities = own.transport->capabilities(),
                       .windows_from_bytes = own.windows_from_bytes,
                       .slices = core->checker_.topology().host_count() == 1,
                       .checksums = own.checksums},
                      {.rails = own.rails, .least_bytes = own.least_rail_bytes}, std::move(movers), std::move(readers));
  core->messages_.Open({.rank = own.rank,
                        .world_size = static_cast<int>(world),
                        .limits = {.eager_message_bytes = own.eager_message_bytes,
                                   .eager_credit_bytes = own.eager_credit_bytes,
                                   .max_announced_messages = own.max_announced_messages,
                                   .body_frame_bytes = std::min(own.frame_bytes, MessageLimits{}.body_frame_bytes),
                                   .checksums = own.checksums},
                        .observer = core->records_.is_on() ? &core->records_ : nullptr},
                       *core->endpoint_);
  // A peer may have sent a message before this rank had an endpoint to answer it. If this communicator has failed since
  // then, that peer still needs a notice.
  core->failure_.NotifyPeers();
  return core;
}

CommunicatorCore::~CommunicatorCore() {
  RONDO_CHECK(!progress_.has_thread(), "a core outlived its communicator");
  endpoint_.Take().reset();  // the endpoint still exists here only if Make failed; it must end before the other members
}

// ---- issuing ----

Work CommunicatorCore::RunAsync(OperationRequest&& request, const OperationOptions& options) {
  Work work;
  work.core_ = shared_from_this();
  const Result<Sequence> sequence = issuer_.Take(request, options, /*at_once=*/false);
  if (!sequence) {
    work.refused_ = names_.FramedError(issuer_.WhyRefused(request.descriptor.collective, sequence.error()));
    return work;
  }
  work.sequence_ = *sequence;
  CallProgressThread();
  return work;
}

Work CommunicatorCore::StartMessage(const MessageRequest& request) {
  Work work;
  work.core_ = shared_from_this();
  auto started = messages_.Start(request);
  if (!started) {
    work.refused_ = names_.FramedError(started.error());
    return work;
  }
  work.operation_ = *std::move(started);
  CallProgressThread();
  return work;
}

void CommunicatorCore::CallProgressThread() {
  if (Status called = progress_.CallThread(); !called) failure_.Begin(std::move(called.error()));
}

// ---- the rest ----

Result<ReduceOp> CommunicatorCore::DefineOperation(UserOperation operation) {
  return failure_.GuardCall("defining an operation", [&] { return Define(std::move(operation)); });
}

Result<ReduceOp> CommunicatorCore::Define(UserOperation&& operation) {
  const std::size_t index = checker_.defined();
  if (operation.name.empty() || operation.name.size() > kMaxUserOperationNameBytes)
    return Fail(ErrorCode::kInvalidArgument, "the name of an operation must have 1 to {} bytes, got {}",
                kMaxUserOperationNameBytes, operation.name.size());
  if (!operation.combine) return Fail(ErrorCode::kInvalidArgument, "operation '{}' has no function", operation.name);
  if (index >= static_cast<std::size_t>(kMaxUserOps))
    return Fail(ErrorCode::kResource,
                "cannot define another operation: {} are defined, and the limit (kMaxUserOps) is {}", index,
                kMaxUserOps);

  const Definition own = Pack(index, operation);
  std::vector<Definition> all(static_cast<std::size_t>(world_size()));
  OperationRequest request;
  request.descriptor = {.count = kDefinitionBytes, .collective = Collective::kAllGather, .type = DataType::kUint8};
  request.input = own.data();
  request.output = all.data();
  RONDO_TRY(issuer_.Run(std::move(request), {}));
  for (std::size_t other = 1; other < all.size(); ++other)
    if (all[other] != all[0])
      return Fail(ErrorCode::kMismatch, "the ranks disagree: rank 0 defines operation {}, but rank {} defines {}",
                  InWords(all[0]), other, InWords(all[other]));
  return checker_.Define(std::move(operation));
}

std::string CommunicatorCore::Transports() const {
  std::set<std::string_view> names;
  for (Rank peer = 0; peer < world_size(); ++peer)
    if (peer != rank()) names.insert(endpoint_->TransportTo(peer));
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, "+"));
}

std::string CommunicatorCore::DescribePath(Rank peer) const {
  const std::string& not_shared = options_.peers[static_cast<std::size_t>(peer)].not_shared;
  const std::string path = endpoint_->DescribePeer(peer);
  return not_shared.empty() ? path : fmt::format("{}; no shared memory: {}", path, not_shared);
}

std::string CommunicatorCore::DescribePaths() const {
  std::string text;
  for (const Rank peer : endpoint_->ControlPeers())
    text += fmt::format("{} ({}): {}\n", names_.NameOf(peer), options_.peers[static_cast<std::size_t>(peer)].host,
                        DescribePath(peer));
  text += current_.DescribeDeviceWay();
  return text;
}

PeerPath CommunicatorCore::PathTo(Rank peer) const {
  if (peer == rank()) return {.transport = "self", .description = "this process"};
  return {.transport = std::string(endpoint_->TransportTo(peer)),
          .description = DescribePath(peer),
          .link = endpoint_->LinkTo(peer)};
}

}  // namespace rondo
