#include "collectives/connect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/awake_clock.h"
#include "base/net/descriptors.h"
#include "base/out_of_memory.h"
#include "base/seconds.h"
#include "collectives/agreed_options.h"
#include "collectives/connect_goodbyes.h"
#include "collectives/connect_parts.h"
#include "collectives/connect_rebuilder.h"
#include "collectives/cpu_list.h"
#include "collectives/model/profile.h"
#include "rendezvous/job_token.h"
#include "rendezvous/membership.h"
#include "rendezvous/tls_settings.h"
#include "rendezvous/url/init_method.h"
#include "rendezvous/url/open_store.h"
#include "transport/ib/ib.h"
#include "transport/shm/shm.h"
#include "transport/tcp/tcp.h"

namespace rondo {
namespace {

// Least number of descriptors that a communicator and its first connection need: an eventfd for the communicator, three
// for an endpoint, four for an endpoint in shared memory, and two connections with the descriptors that are passed over
// them.
constexpr std::size_t kDescriptorsOfCommunicator = 12;

// How long a rank that serves the store keeps serving it after the rendezvous has failed.
constexpr Duration kFailureReadTime = std::chrono::seconds(1);
// How long a rank that cannot take part tries to write its reason to the store.
constexpr Duration kFailureReportTime = std::chrono::seconds(2);
constexpr Duration kDefaultTimeout = std::chrono::seconds(60);

// Number of CPU cores by host, without ranks that have no host id. Launchers give each rank its own cores, or all ranks
// the same cores. So the ranks of a host share the union of their cores.
std::map<std::string_view, int> CoresOfHosts(const Membership& membership) {
  std::map<std::string_view, std::vector<std::string_view>> lists;
  for (const Member& member : membership.members)
    if (!member.host_id.empty()) lists[member.host_id].push_back(member.cpus);
  std::map<std::string_view, int> cores;
  for (const auto& [host_id, of_host] : lists) cores[host_id] = CountCpus(of_host);
  return cores;
}

// All ranks compute the same result, so all fail together, and none waits for the others.
Status AllOnOneHost(const Membership& membership) {
  if (membership.members.size() == 1) return {};
  const Member& first = membership.members.front();
  for (std::size_t rank = 0; rank < membership.members.size(); ++rank) {
    const Member& member = membership.members[rank];
    if (!member.host_id.empty() && member.host_id == first.host_id) continue;
    std::string why = WhyNotOneHost(first.host_id, member.host_id);
    if (first.host_id.empty()) why = "rank 0 cannot tell which host it is on (is /proc mounted there?)";
    if (!why.empty()) why = fmt::format(" ({})", why);
    return Fail(ErrorCode::kInvalidArgument,
                "only shared memory is allowed, but rank {} (host {}) and rank 0 (host {}) are not known to be on one "
                "host and in one network namespace{}",
                rank, member.host, first.host, why);
  }
  return {};
}

// The first numeric address in the `address` that a rank publishes, whether TCP is used alone or together with shared
// memory and RDMA. "": there is none.
std::string NumericAddressOf(const std::string& address) {
  const std::vector<std::string> hosts = PublishedHosts(BaseOfIbAddress(BaseOfShmAddress(address)));
  return hosts.empty() ? "" : hosts.front();
}

}  // namespace

std::string NewInstance() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

Result<Presence> MakePresence(const ConnectOptions& options, const Identity& identity, const std::string& job,
                              std::uint64_t generation) {
  TcpOptions tcp;
  tcp.token = identity.token;
  tcp.tls = identity.tls;
  tcp.job = job;
  tcp.generation = generation;
  tcp.instance = NewInstance();
  if (auto host_id = FindHostId()) {
    tcp.host_id = *std::move(host_id);
  } else if (options.path == Path::kAuto || options.path == Path::kShm) {
    Log(options.logger, LogLevel::kWarning, "no shared memory with other ranks: {}", host_id.error().message());
  }
  tcp.clock = options.communicator.clock;
  tcp.logger = options.logger;
  tcp.counters = options.tcp_counters;
  tcp.addresses = options.addresses;
  tcp.interface = options.interface;
  tcp.ports = options.ports.value_or(PortRange{});
  Presence presence;
  Member& self = presence.self;
  self.host = LocalHostName();
  self.host_id = tcp.host_id;
  self.pid = static_cast<std::uint64_t>(getpid());
  self.instance = tcp.instance;
  self.config = ConfigOf(options);
  RONDO_ASSIGN(presence.transport, MakeTcpTransport(std::move(tcp)));
  presence.hosts = PublishedHosts(presence.transport->Address());
  const bool in_the_clear = identity.tls == nullptr;
  if (options.path == Path::kIb && !in_the_clear)
    return Fail(ErrorCode::kInvalidArgument,
                "only RDMA is allowed, but TLS is on, and RDMA devices do not encrypt data");
  if (options.path == Path::kIb || (options.path == Path::kAuto && in_the_clear)) {
    const bool forced = !options.addresses.empty() || !options.interface.empty();
    IbOptions ib;
    // If the user has set addresses or an interface, RDMA uses only the ports that have those addresses.
    ib.port =
        options.rdma_port.empty() && forced ? fmt::format("{}", fmt::join(presence.hosts, "+")) : options.rdma_port;
    ib.logger = options.logger;
    ib.may_fall_back = options.path == Path::kAuto;
    if (options.path == Path::kAuto) ib.host_id = self.host_id;
    RONDO_ASSIGN(presence.transport, MakeIbTransport(presence.transport, std::move(ib)));
  }
  if (options.path == Path::kAuto || options.path == Path::kShm) {
    RONDO_ASSIGN(presence.transport,
                 MakeShmTransport(presence.transport, {.host_id = self.host_id, .logger = options.logger}));
  }
  self.address = presence.transport->Address();
  self.cpus = UsableCpus();
  return presence;
}

Result<CommunicatorOptions> OptionsAfterRendezvous(const ConnectOptions& options, const std::string& job,
                                                   const Membership& membership, std::shared_ptr<Transport> transport) {
  if (options.path == Path::kShm) RONDO_TRY(AllOnOneHost(membership));
  CommunicatorOptions communicator = options.communicator;
  communicator.rank = membership.rank;
  communicator.peers.clear();
  const std::map<std::string_view, int> cores = CoresOfHosts(membership);
  const std::string& own_host_id = membership.members[static_cast<std::size_t>(membership.rank)].host_id;
  for (const Member& member : membership.members)
    communicator.peers.push_back(
        {.host = member.host,
         .host_id = member.host_id,
         .pid = member.pid,
         .address = member.address,
         .ip = NumericAddressOf(member.address),
         .cores = member.host_id.empty() ? CountCpus({member.cpus}) : cores.at(member.host_id),
         .not_shared = options.path == Path::kAuto ? WhyNotOneHost(own_host_id, member.host_id) : ""});
  communicator.transport = std::move(transport);
  communicator.logger = options.logger;
  communicator.timeout = *options.timeout;
  communicator.job = job;
  communicator.generation = membership.generation;
  return communicator;
}

Result<OpenedStore> OpenStoreOf(const ConnectOptions& options, const InitMethod& method,
                                const OpenStoreOptions& opening) {
  if (options.store != nullptr) return OpenedStore(options.store, nullptr);
  return OpenStore(method, opening);
}

std::optional<std::string> ProcessEnvironment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

namespace {

std::string Variable(const Environment& environment, const std::string& name) {
  return environment ? environment(name).value_or("") : "";
}

Error OfVariable(const std::string& name, const Error& error) {
  return error.With([&](ErrorDetails& d) { d.message = fmt::format("variable {}: {}", name, d.message); });
}

}  // namespace

Result<std::optional<Duration>> TimeoutIn(const Environment& environment) {
  const std::string text = Variable(environment, "RONDO_TIMEOUT");
  if (text.empty()) return std::nullopt;
  const auto seconds = ParseSeconds(text);
  if (!seconds) return Fail(OfVariable("RONDO_TIMEOUT", seconds.error()));
  return *seconds;
}

Result<std::optional<PortRange>> PortsIn(const Environment& environment) {
  const std::string text = Variable(environment, "RONDO_PORTS");
  if (text.empty()) return std::nullopt;
  const auto ports = ParsePortRange(text);
  if (!ports) return Fail(OfVariable("RONDO_PORTS", ports.error()));
  return *ports;
}

Result<std::shared_ptr<const Profile>> ProfileIn(const Environment& environment) {
  const std::string path = Variable(environment, "RONDO_PROFILE");
  if (path.empty()) return nullptr;
  auto profile = ReadProfile(path);
  if (!profile) return Fail(OfVariable("RONDO_PROFILE", profile.error()));
  return profile;
}

namespace {

// The caller's options, completed from the environment.
struct Start {
  ConnectOptions options;
  // Used for the rendezvous and for rebuilds; the communicators use options.communicator.clock.
  std::shared_ptr<const Clock> clock;
  std::shared_ptr<AwakeClock> awake;  // the same object as `clock`; null if the caller gave a clock
  TimePoint deadline;
  Identity identity;
  InitMethod method;                               // not used if the caller gives a store
  std::shared_ptr<const AwakeClockTicker> ticker;  // advances `awake`
};

Result<Start> BeginBy(const ConnectOptions& given) {
  Start start;
  ConnectOptions& options = start.options = given;
  if (!options.timeout) {
    RONDO_ASSIGN(options.timeout, TimeoutIn(options.environment));
    if (!options.timeout) options.timeout = kDefaultTimeout;
  }
  if (!options.ports) {
    RONDO_ASSIGN(options.ports, PortsIn(options.environment));
  }
  if (options.ports && options.ports->last < options.ports->first)
    return Fail(ErrorCode::kInvalidArgument, "the range of ports {} to {} ends before it begins", options.ports->first,
                options.ports->last);
  if (*options.timeout <= Duration::zero()) return Fail(ErrorCode::kInvalidArgument, "the timeout must be positive");
  start.clock = options.communicator.clock;
  if (start.clock == nullptr) {
    options.communicator.clock = std::make_shared<const SteadyClock>();
    start.clock = start.awake = std::make_shared<AwakeClock>(options.communicator.clock);
    start.ticker = StartTicking(start.awake);
  }
  start.deadline = Later(start.clock->Now(), *options.timeout);
  std::shared_ptr<const Profile>& profile = options.communicator.profile;
  if (profile == nullptr) {
    RONDO_ASSIGN(profile, ProfileIn(options.environment));
    if (profile == nullptr) profile = DefaultProfile();
  }

  RONDO_ASSIGN(options.token, TokenText(options.token, options.environment));
  RONDO_ASSIGN(start.identity.token, MakeJobToken(options.token));
  RONDO_ASSIGN(options.tls, FindTls(options.tls, options.environment, start.identity.token.get()));
  RONDO_ASSIGN(start.identity.tls, TlsContext::Make(*options.tls));
  if (options.store == nullptr) {
    RONDO_ASSIGN(start.method, ParseInitMethod(options.rendezvous, options.environment));
  } else if (!options.join && !(options.rank && options.world_size)) {
    return Fail(ErrorCode::kInvalidArgument,
                "options.store has neither rank nor world size, so set options.rank and options.world_size");
  }
  if (start.method.join) options.join = true;
  return start;
}

// The result of a successful rendezvous.
struct CompletedRendezvous {
  std::string job;
  bool external_store = false;
  Presence presence;
  OpenedStore opened;
  Membership membership;
};

// Describes this process to the other ranks if it has no transport.
Member Nameless() {
  Member self;
  self.host = LocalHostName();
  self.pid = static_cast<std::uint64_t>(getpid());
  self.instance = NewInstance();
  return self;
}

// The error of a process that reached neither its launcher nor other ranks. Adds what the process may be if it is not a
// rank of a job. If another rank caused the error, the process is a rank, and nothing is added.
Error IfNoRank(const Error& error, const std::string& what_it_may_be) {
  const ErrorCode code = error.code();
  const bool is_alone = code == ErrorCode::kRendezvousTimeout || code == ErrorCode::kUnreachable ||
                        code == ErrorCode::kStoreLost || code == ErrorCode::kStale;
  if (!is_alone || error.culprit() != kNoRank || what_it_may_be.empty()) return error;
  return error.With([&](ErrorDetails& details) { details.message += ". " + what_it_may_be; });
}

// `keeps_store`: the store is used after the rendezvous, too.
Result<CompletedRendezvous> PerformRendezvous(const Start& start, bool keeps_store) {
  const auto& [options, clock, awake, deadline, identity, method, ticker] = start;
  // A launcher's rank is only valid in the launcher's own world.
  const bool same_world = !options.world_size || !method.world_size || options.world_size == method.world_size;
  const std::optional<Rank> rank = options.rank ? options.rank : same_world ? method.rank : std::nullopt;
  const std::optional<int> world_size = options.world_size ? options.world_size : method.world_size;
  if (!world_size)
    return Fail(
        ErrorCode::kInvalidArgument,
        "the world size is missing: give options.world_size, ?world_size= in the rendezvous URL, or RONDO_WORLD_SIZE "
        "(with env:// also WORLD_SIZE)");
  if (rank && (*rank < 0 || *rank >= *world_size))
    return Fail(ErrorCode::kInvalidArgument, "rank {} is outside 0..{} (world size {})", *rank, *world_size - 1,
                *world_size);

  const std::string if_alone = method.launch && rank == method.launch->rank ? method.launch->IfNotMeant() : "";
  auto opened_exchange = OpenExchange(method, clock, deadline);
  if (!opened_exchange) return Fail(IfNoRank(opened_exchange.error(), if_alone));
  const std::shared_ptr<Exchange> exchange = *std::move(opened_exchange);
  std::string job = options.job;
  if (job.empty()) job = method.job;
  if (job.empty()) job = exchange != nullptr ? exchange->job() : "default";

  // If this rank lacks a resource, the other ranks must learn it during the rendezvous, instead of waiting for this
  // rank or finding it dead. So it checks, before the rendezvous, that it has what its communicator needs.
  Result<Presence> made = OrOutOfMemory("preparing to connect", [&, &asked = options, &by = identity] {
    return MakePresence(asked, by, job, asked.generation);
  });
  if (made && *world_size > 1) {
    const Status left = CheckDescriptorsLeft(kDescriptorsOfCommunicator, "a communicator");
    if (!left) made = Fail(left.error());
  }
  if (!made && *world_size == 1) return Fail(made.error());
  Presence presence = made ? *std::move(made) : Presence{.self = Nameless(), .transport = nullptr, .hosts = {}};
  TimePoint until = made ? deadline : std::min(deadline, Later(clock->Now(), kFailureReportTime));
  const bool external_store = options.external_store || method.external_store;
  const std::string who = fmt::format("host {}, pid {}", presence.self.host, presence.self.pid);
  const auto open = [&, &asked = options, &at = method, &proven = identity, &on = clock] {
    return OpenStoreOf(asked, at,
                       {.job = job,
                        .identity = proven,
                        .generation = asked.generation,
                        .rank = rank,
                        .external_store = external_store,
                        .exchange = exchange,
                        .hosts = presence.hosts,
                        .who = who,
                        .ports = asked.ports.value_or(PortRange{}),
                        .failure = made ? nullptr : &made.error(),
                        .deadline = until,
                        .clock = on,
                        .logger = asked.logger});
  };
  Result<OpenedStore> came = open();
  if (!came && made && came.error().code() == ErrorCode::kResource) {
    // This rank has no port or descriptor left to reach the store, and the others would wait for it until their
    // deadline. It closes its listening socket, uses the freed port or descriptor to reach the store, and reports the
    // failure. If another rank of this host takes the freed port first, this rank cannot report.
    presence.transport = nullptr;
    made = Fail(came.error());
    until = std::min(deadline, Later(clock->Now(), kFailureReportTime));
    came = open();
  }
  if (!came) return Fail(made ? IfNoRank(came.error(), if_alone) : made.error());
  OpenedStore opened = *std::move(came);
  // A rank that has completed the rendezvous may come for the next generation while a slower rank still uses this
  // store. The fast rank must then wait for the next store. If it used this store, the server would wait until it has
  // left.
  const auto leave_others_out = [&] {
    if (!keeps_store) opened.TakeNoMore();
  };
  const JoinOptions joining{.rank = rank,
                            .world_size = *world_size,
                            .job = job,
                            .generation = options.generation,
                            .self = std::move(presence.self),
                            .deadline = until,
                            .logger = options.logger,
                            .all_are_here = leave_others_out,
                            .if_alone = if_alone};
  Result<Membership> joined = made ? Join(opened.store(), *clock, joining)
                                   : Fail(AbortRendezvous(opened.store(), *clock, joining, made.error()));
  if (!joined) {
    // If this rank serves the store, the others may still have to read why the rendezvous failed.
    (void)opened.Leave(clock->Now() + kFailureReadTime);
    return Fail(joined.error());
  }
  return CompletedRendezvous{.job = std::move(job),
                             .external_store = external_store,
                             .presence = std::move(presence),
                             .opened = std::move(opened),
                             .membership = *std::move(joined)};
}

// Where the ranks of this job keep their goodbyes. Null: the store of the rendezvous does not outlive the ranks. A file
// cannot be used, because it is emptied when no process has it open any more.
Result<std::shared_ptr<KeptGoodbyes>> GoodbyesOf(const Start& start, const CompletedRendezvous& rendezvous) {
  const ConnectOptions& options = start.options;
  GoodbyeStore kept{.open = nullptr,
                    .description = rendezvous.opened.store().Describe(),
                    .job = rendezvous.job,
                    .clock = options.communicator.clock};
  if (options.store != nullptr) {
    if (!options.keeps_store) return nullptr;
    kept.keeps_deadlines = false;
    kept.open = [store = options.store](TimePoint) -> Result<OpenedStore> { return OpenedStore(store, nullptr); };
    return KeepGoodbyesIn(std::move(kept), rendezvous.membership);
  }
  const bool is_launch = start.method.kind == InitMethod::Kind::kLaunch;
  const bool outlives = is_launch
                            ? start.method.launch->way == Launched::Way::kTcp && start.method.launch->external_store
                            : start.method.kind == InitMethod::Kind::kTcp && rendezvous.external_store;
  if (!outlives) return nullptr;
  const OpenStoreOptions opening{.job = rendezvous.job,
                                 .identity = start.identity,
                                 .generation = options.generation,
                                 .rank = rendezvous.membership.rank,
                                 .external_store = true,
                                 .exchange = nullptr,
                                 .who = fmt::format("host {}, pid {}", LocalHostName(), getpid()),
                                 .deadline = {},
                                 .clock = options.communicator.clock,
                                 .logger = options.logger};
  kept.open = [opening, method = start.method](TimePoint deadline) {
    OpenStoreOptions now = opening;
    now.deadline = deadline;
    return OpenStore(method, now);
  };
  return KeepGoodbyesIn(std::move(kept), rendezvous.membership);
}

Result<std::unique_ptr<Communicator>> ConnectOrThrow(const ConnectOptions& given) {
  RONDO_ASSIGN(const Start start, BeginBy(given));
  const auto& [options, clock, awake, deadline, identity, method, ticker] = start;
  const RebuildClock rebuild_clock(clock, awake);
  if (options.join) return ConnectAsJoiner(options, identity, method, rebuild_clock, deadline);
  RONDO_ASSIGN(CompletedRendezvous rendezvous, PerformRendezvous(start, /*keeps_store=*/options.rebuildable));
  if (options.rebuildable) {
    rendezvous.opened.Keep();
    const bool served_by_a_rank = options.store == nullptr && !rendezvous.external_store && ServedByARank(method);
    const auto home = std::make_shared<RebuildHome>(options, identity, rendezvous.job, std::move(rendezvous.opened),
                                                    served_by_a_rank, rebuild_clock);
    return CreateRebuildable(home, rendezvous.membership, rendezvous.presence.transport, Running(rendezvous.membership),
                             deadline);
  }
  RONDO_ASSIGN(std::shared_ptr<KeptGoodbyes> goodbyes, GoodbyesOf(start, rendezvous));
  rendezvous.opened.TakeNoMore();  // no further client is accepted, even if a rank other than 0 serves the store
  // The rendezvous is complete. If a rank has died since then, the first collective names it with a better error than
  // this code could.
  if (const Status left = rendezvous.opened.Leave(deadline); !left)
    Log(options.logger, LogLevel::kWarning, "this rank could not leave the store: {}", left.error().ToString());
  RONDO_ASSIGN(CommunicatorOptions communicator,
               OptionsAfterRendezvous(options, rendezvous.job, rendezvous.membership, rendezvous.presence.transport));
  communicator.kept_goodbyes = std::move(goodbyes);
  return Communicator::Create(std::move(communicator));
}

Result<RendezvousResult> RendezvousOrThrow(const ConnectOptions& given) {
  RONDO_ASSIGN(const Start start, BeginBy(given));
  if (start.options.join)
    return Fail(
        ErrorCode::kInvalidArgument,
        "options.join is set, but a joiner takes part in no rendezvous until a running job admits it; use Connect");
  RONDO_ASSIGN(CompletedRendezvous rendezvous, PerformRendezvous(start, /*keeps_store=*/true));
  rendezvous.opened.Keep();
  // If the store's server is in this process, `held` keeps the server alive, too.
  const auto held = std::make_shared<OpenedStore>(std::move(rendezvous.opened));
  return RendezvousResult{.rank = rendezvous.membership.rank,
                          .world_size = static_cast<int>(rendezvous.membership.members.size()),
                          .store = std::shared_ptr<Store>(held, &held->store())};
}

}  // namespace

Result<std::unique_ptr<Communicator>> Connect(const ConnectOptions& options) {
  return OrOutOfMemory("connecting", [&] { return ConnectOrThrow(options); });
}

Result<RendezvousResult> Rendezvous(const ConnectOptions& options) {
  return OrOutOfMemory("performing the rendezvous", [&] { return RendezvousOrThrow(options); });
}

}  // namespace rondo
