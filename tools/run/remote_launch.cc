#include "tools/run/remote_launch.h"

#include <fmt/core.h>
#include <poll.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "base/net/resolve.h"
#include "rendezvous/job_token.h"
#include "rendezvous/launchers/rondo_run.h"
#include "tools/common/output.h"
#include "tools/run/local_host.h"
#include "tools/run/remote_host.h"

namespace rondo {
namespace {

constexpr Duration kPatience = std::chrono::seconds(60);

// Waits until `done` is true for all hosts, and returns 0. If a signal interrupts the wait, returns the signal.
Result<int> Await(const std::vector<RemoteHost*>& hosts, bool (RemoteHost::*done)() const, TimePoint deadline,
                  const Clock& clock, const SignalFd& signals) {
  while (true) {
    for (RemoteHost* host : hosts) {
      host->Pump();
      if (host->failure()) return Fail(*host->failure());
    }
    for (int signal = signals.Next(); signal != 0; signal = signals.Next()) {
      if (signal == SIGTSTP) SignalFd::Stop();
      if (SignalFd::IsInterrupt(signal)) return signal;
    }
    const auto late = std::find_if(hosts.begin(), hosts.end(), [&](RemoteHost* host) { return !(host->*done)(); });
    if (late == hosts.end()) return 0;
    const auto left_ms = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock.Now()).count();
    if (left_ms <= 0) {
      const std::string said = (*late)->WhatSshSaid();
      return Fail(ErrorCode::kTimeout, "{}: the host did not answer in time (--timeout){}", (*late)->name(),
                  said.empty() ? "" : ": " + said);
    }
    std::vector<pollfd> fds{{signals.get(), POLLIN, 0}};
    for (RemoteHost* host : hosts) host->AddDescriptors(fds);
    ::poll(fds.data(), fds.size(), static_cast<int>(std::min<std::int64_t>(left_ms, 60'000)));
  }
}

bool IsOurs(const std::string& address, const Clock& clock) {
  const auto found = Resolve({address, 0}, ResolveFor::kConnect, clock, clock.Now());
  return found && !found->empty() && IsLocal(found->front());
}

// The store's address for the ranks of a host: --master-address, or the address from which ssh connected.
Result<std::string> StoreAddress(const LaunchOptions& options, const RemoteHost& host, const Clock& clock) {
  if (!options.master_address.empty()) return options.master_address;
  const std::string& caller = host.caller();
  if (caller.empty()) {
    return Fail(
        ErrorCode::kInvalidArgument,
        "{}: SSH_CONNECTION on that host does not contain the address of this host; give --master-address ADDRESS",
        host.name());
  }
  // true: a link-local address, with the name of the other host's interface
  const bool scoped = caller.find('%') != std::string::npos;
  if (!scoped && !IsOurs(caller, clock)) {
    PrintError(
        "{}: {} sees this host at {}, which is not one of its addresses (perhaps because of a jump host or address "
        "translation); if ranks there cannot reach the store at this address, give --master-address ADDRESS\n",
        options.program, host.name(), caller);
  }
  return caller;
}

// The address at which rank 0 can serve the program's own store: the address of rank 0's host to which ssh connected.
// "": rank 0 is on this host, or SSH_CONNECTION does not contain the address.
std::string ProgramAddress(const std::vector<JobPlace>& remote, const std::vector<RemoteHost*>& others) {
  for (std::size_t i = 0; i < others.size(); ++i)
    if (remote[i].ranks.first == 0 && remote[i].ranks.count > 0) return others[i]->own_address();
  return "";
}

// The store's address for ranks on this host. Other hosts must be able to reach it, too, because ranks may pass it on.
std::string StoreAddressHere(const LaunchOptions& options, const std::vector<RemoteHost*>& others, const Clock& clock) {
  if (!options.master_address.empty()) return options.master_address;
  const auto one =
      std::find_if(others.begin(), others.end(), [&](auto* host) { return IsOurs(host->caller(), clock); });
  return one == others.end() ? "127.0.0.1" : (*one)->caller();
}

void SetVariable(Variables& variables, const std::string& name, const std::string& value) {
  std::erase_if(variables, [&](const auto& variable) { return variable.first == name; });
  variables.emplace_back(name, value);
}

// The RONDO_ variables of this process. Ranks here inherit them; ranks on other hosts must be given them.
Variables OurRondoVariables(const LaunchOptions& options) {
  Variables ours = ProcessVariables();
  std::erase_if(ours, [&](const auto& variable) {
    const std::string& name = variable.first;
    return !name.starts_with("RONDO_") || DescribesOneProcess(name) || (!options.with_token && name == kTokenVariable);
  });
  return ours;
}

Result<AgentJob> JobOf(const LaunchOptions& options, const RankProcessOptions& ranks) {
  AgentJob job{.grace = options.grace, .command = ranks.command};
  std::error_code error;
  job.directory = std::filesystem::current_path(error).string();
  if (error) return Fail(ErrorCode::kInvalidArgument, "the working directory is not available: {}", error.message());
  job.environment = OurRondoVariables(options);
  for (const auto& [name, value] : ranks.environment) SetVariable(job.environment, name, value);
  return job;
}

}  // namespace

Result<JobHosts> ReachHosts(const LaunchOptions& options, const RankProcessOptions& ranks, std::uint16_t store_port,
                            const Clock& clock, const SignalFd& signals, TaggedOutput& output) {
  const Duration patience = options.timeout.value_or(kPatience);
  const TimePoint deadline = Later(clock.Now(), patience);
  RONDO_ASSIGN(AgentJob job, JobOf(options, ranks));
  JobHosts reached;
  std::vector<RemoteHost*> others;
  for (const PlacedHost& place : options.places) {
    if (place.here) continue;
    RONDO_ASSIGN(std::unique_ptr<RemoteHost> host, RemoteHost::Dial(place.host, options.ssh, patience, clock, output));
    others.push_back(host.get());
    reached.hosts.push_back(std::move(host));
    reached.places.push_back({others.back(), place.ranks});
  }
  RONDO_ASSIGN(reached.interrupted_by, Await(others, &RemoteHost::handshake_done, deadline, clock, signals));
  if (reached.interrupted_by != 0) return reached;
  const std::string of_program = ProgramAddress(reached.places, others);
  const auto set_addresses = [&](Variables& variables, const std::string& ours) {
    SetVariable(variables, "MASTER_ADDR", of_program.empty() ? ours : of_program);
    SetVariable(variables, "RONDO_STORE", HostPort{.host = ours, .port = store_port}.ToString());
  };
  for (RemoteHost* host : others) {
    RONDO_ASSIGN(const std::string address, StoreAddress(options, *host, clock));
    set_addresses(job.environment, address);
    host->Order(job);
  }
  RONDO_ASSIGN(reached.interrupted_by, Await(others, &RemoteHost::ready, deadline, clock, signals));
  for (const PlacedHost& place : options.places) {
    if (!place.here) continue;
    RankProcessOptions here = ranks;
    set_addresses(here.environment, StoreAddressHere(options, others, clock));
    reached.hosts.push_back(std::make_unique<LocalHost>(place.host.name, std::move(here)));
    reached.places.push_back({reached.hosts.back().get(), place.ranks});
  }
  return reached;
}

}  // namespace rondo
