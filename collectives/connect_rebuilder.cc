#include "collectives/connect_rebuilder.h"

#include <fmt/core.h>

#include <algorithm>

#include "collectives/connect_goodbyes.h"
#include "collectives/connect_parts.h"
#include "collectives/regroup_request.h"

namespace rondo {
namespace {

// How long a rank that serves the store waits for the others to read that the rendezvous succeeded. A rank that has not
// read it by then is assumed to have died.
constexpr Duration kResultReadTime = std::chrono::seconds(5);

RebuildReport ReportOf(const Roster& roster) {
  RebuildReport report{.generation = roster.generation, .old_generation = roster.last_run};
  for (const RosterEntry& member : roster.members) report.old_ranks.push_back(member.old_rank);
  for (const Departed& one : roster.departed)
    report.gone.push_back({.old_rank = one.who.old_rank, .host = one.who.host, .pid = one.who.pid, .why = one.why});
  return report;
}

// Keeps the store until all ranks have read the result of the rendezvous. Otherwise the store would be gone if the rank
// that serves it ended at once. The rendezvous has succeeded, so an error here does not fail it.
Status AwaitReaders(const RebuildHome& home, const Membership& membership, TimePoint deadline) {
  Store& store = home.opened.store();
  const std::string readers =
      fmt::format("rebuild/{}/{}/{}/readers", home.options.generation, home.job, membership.generation);
  const std::string all = readers + "/all";
  RONDO_ASSIGN(const std::int64_t count, store.Add(readers, 1, deadline));
  if (count == static_cast<std::int64_t>(membership.members.size())) RONDO_TRY(store.Set(all, "", deadline));
  if (home.opened.serves()) RONDO_TRY(store.WaitFor(all, std::min(deadline, Later(home.clock.Now(), kResultReadTime))));
  return {};
}

RegroupOptions OptionsOf(const RebuildHome& home) {
  RegroupOptions options;
  options.job = home.job;
  options.first_generation = home.options.generation;
  options.logger = home.options.logger;
  if (home.served_by_a_rank)
    options.if_store_is_lost =
        "the store was served by one of the ranks and died with it; to continue after the loss of any rank, let "
        "the store outlive the ranks: "
        "start them by rondo run, or give them file:///PATH or a rondo store with RONDO_EXTERNAL_STORE=1";
  return options;
}

// Sets the function `make_self` in `options`. Every attempt to regroup calls this function. It makes a new Presence of
// this process, stores the Presence in `presence`, and returns the Presence's `self`.
RegroupOptions Presenting(RegroupOptions options, const RebuildHome& home, Presence& presence) {
  options.make_self = [&](std::uint64_t generation) -> Result<Member> {
    RONDO_ASSIGN(presence, MakePresence(home.options, home.identity, home.job, generation));
    return presence.self;
  };
  return options;
}

class ConnectedRebuilder final : public Rebuilder {
 public:
  ConnectedRebuilder(std::shared_ptr<RebuildHome> home, RosterPlace standing, std::string config)
      : home_(std::move(home)), standing_(std::move(standing)), config_(std::move(config)) {}

  Result<std::unique_ptr<Communicator>> Rebuild(const RebuildRequest& request) override {
    const RebuildClock& clock = home_->clock;
    const auto ticker = clock.IgnoreStops();
    // The request's deadline is a time of the communicator's clock.
    const Duration left = std::max(request.deadline - home_->options.communicator.clock->Now(), Duration::zero());
    Presence presence;
    RegroupOptions options = Presenting(Asked(request, OptionsOf(*home_)), *home_, presence);
    options.config = config_;
    options.deadline = Later(clock.Now(), left);
    RONDO_ASSIGN(const Membership membership, Regroup(home_->opened.store(), *clock.get(), options, standing_));
    return CreateRebuildable(home_, membership, presence.transport, standing_, options.deadline);
  }

 private:
  const std::shared_ptr<RebuildHome> home_;
  RosterPlace standing_;  // the latest roster that contains this process
  const std::string config_;
};

}  // namespace

bool ServedByARank(const InitMethod& method) {
  switch (method.kind) {
    case InitMethod::Kind::kFile: return false;
    case InitMethod::Kind::kTcp: return true;
    case InitMethod::Kind::kLaunch: break;
  }
  return method.launch->way != Launched::Way::kFile && !method.launch->external_store;
}

Result<std::unique_ptr<Communicator>> CreateRebuildable(const std::shared_ptr<RebuildHome>& home,
                                                        const Membership& membership,
                                                        std::shared_ptr<Transport> transport, RosterPlace standing,
                                                        TimePoint deadline) {
  if (home->served_by_a_rank) {
    if (const Status read = AwaitReaders(*home, membership, deadline); !read)
      Log(home->options.logger, LogLevel::kWarning, "some ranks might not know of generation {}: {}",
          membership.generation, read.error().ToString());
  }
  RONDO_ASSIGN(CommunicatorOptions options,
               OptionsAfterRendezvous(home->options, home->job, membership, std::move(transport)));
  const bool first = membership.generation == home->options.generation;
  if (!first) {
    options.report = ReportOf(standing.roster);
    options.frame = nullptr;  // the frame names ranks of the previous generation
  }
  options.kept_goodbyes = KeepGoodbyesIn({.open = [home](TimePoint) -> Result<OpenedStore> { return home->opened; },
                                          .description = home->opened.store().Describe(),
                                          .job = home->job,
                                          .clock = home->clock.get(),
                                          .keeps_deadlines = home->options.store == nullptr},
                                         membership);
  options.rebuilder =
      std::make_shared<ConnectedRebuilder>(home, Running(std::move(standing.roster), membership.rank),
                                           membership.members[static_cast<std::size_t>(membership.rank)].config);
  return Communicator::Create(std::move(options));
}

Result<std::unique_ptr<Communicator>> ConnectAsJoiner(const ConnectOptions& options, const Identity& identity,
                                                      const InitMethod& method, const RebuildClock& clock,
                                                      TimePoint deadline) {
  using Way = Launched::Way;
  InitMethod served = method;
  if (served.kind == InitMethod::Kind::kLaunch) {
    if (served.launch->way == Way::kPmi1 || served.launch->way == Way::kPmi2 || served.launch->way == Way::kPmix)
      return Fail(ErrorCode::kUnsupported,
                  "a joiner cannot find a job through {}, because that launcher names the store only to the ranks that "
                  "it started; set RONDO_RENDEZVOUS for all processes",
                  served.launch->launcher);
    served.launch->external_store = true;  // a joiner never serves the store
  }
  std::string job = options.job;
  if (job.empty()) job = method.job.empty() ? "default" : method.job;

  // Only the description of this process is used: the transport is made again when the generation is known.
  RONDO_ASSIGN(const Presence now, MakePresence(options, identity, job, options.generation));
  RONDO_ASSIGN(OpenedStore opened,
               OpenStoreOf(options, served,
                           {.job = job,
                            .identity = identity,
                            .generation = options.generation,
                            .rank = std::nullopt,
                            .external_store = true,
                            .exchange = nullptr,
                            .who = fmt::format("host {}, pid {}, a joiner", now.self.host, now.self.pid),
                            .deadline = deadline,
                            .clock = clock.get(),
                            .logger = options.logger}));
  const bool served_by_a_rank =
      options.store == nullptr && !options.external_store && !method.external_store && ServedByARank(method);
  auto home = std::make_shared<RebuildHome>(options, identity, job, std::move(opened), served_by_a_rank, clock);
  Presence presence;
  RegroupOptions regroup = Presenting(OptionsOf(*home), *home, presence);
  regroup.config = now.self.config;
  regroup.deadline = deadline;
  const RosterEntry self{.instance = now.self.instance, .host = now.self.host, .pid = now.self.pid};
  RosterPlace standing;
  RONDO_ASSIGN(const Membership membership,
               RegroupAsJoiner(home->opened.store(), *clock.get(), regroup, self, standing));
  return CreateRebuildable(home, membership, presence.transport, std::move(standing), deadline);
}

}  // namespace rondo
