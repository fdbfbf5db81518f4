// rondo doctor: checks environment variables that silently change a job's behaviour. Also defines the order of all
// sections.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/common/comma_list.h"
#include "tools/doctor/findings.h"

namespace rondo {
namespace {

struct OwnVariable {
  std::string_view name, what;
  bool secret = false;
};

// The variables that Rondo and its tools read. tools/dev/reference copies the names and texts into docs/REFERENCE.md.
constexpr std::array<OwnVariable, 28> kOwn{{
    {"RONDO_ADDRESSES",
     "only for rondo_torch; local addresses to use, separated by commas (default: chosen by reachability)"},
    {"RONDO_BLOCKING_WAIT",
     "only for rondo_torch; 1 (default): wait() of a GPU's work waits in the host; 0: the GPU's stream waits"},
    {"RONDO_EXTERNAL_STORE", "1: no rank serves the store; another process serves it at the address of the rendezvous"},
    {"RONDO_FP32_ACCUMULATE",
     "only for rondo_torch; 1: reductions of 16-bit floats keep partial results in float32 (default 0)"},
    {"RONDO_INTERFACE", "only for rondo_torch; interfaces to use: eth0,ib0 or ^docker0,lo or =eth0 or 10.0.0.0/8"},
    {"RONDO_JOB", "name of the job, equal on all ranks; processes of different jobs refuse each other"},
    {"RONDO_JOIN", "1: the job is already running, and this process joins it when its ranks rebuild"},
    {"RONDO_LAUNCHER", "the launcher that started the ranks; rondo run sets it"},
    {"RONDO_MASTER_ADDR", "host of rank 0; takes precedence over MASTER_ADDR"},
    {"RONDO_MASTER_PORT", "port on the host of rank 0; takes precedence over MASTER_PORT"},
    {"RONDO_PMIX_LIBRARY", "the PMIx library to load (default: libpmix.so.2)"},
    {"RONDO_PORTS", "TCP ports to listen on, FIRST-LAST (default: chosen by the system)"},
    {"RONDO_PROFILE",
     "file of rondo tune by which algorithms are chosen, the same on all ranks (default: the built-in profile)"},
    {"RONDO_RAILS", "only for rondo_torch; number of connections to each peer, 1 (default) to 16; equal on all ranks"},
    {"RONDO_RANK", "rank of this process; takes precedence over RANK"},
    {"RONDO_RECORD_DIR",
     "only for rondo_torch; directory to which a failed job writes its last operations, for rondo trace"},
    {"RONDO_RENDEZVOUS",
     "where ranks find each other: tcp://host:port or file:///path; takes precedence over the launcher"},
    {"RONDO_RESTART", "the number of this restart among those of the job; rondo run --restarts sets it"},
    {"RONDO_STORE", "address HOST:PORT at which rondo run serves its store; rondo run sets it"},
    {"RONDO_TIMEOUT", "seconds for the rendezvous, and for each operation (default 60)"},
    {"RONDO_TLS", "encryption: off (default), psk or certificates; equal on all ranks"},
    {"RONDO_TLS_CA", "with certificates: file of the CA that must have signed them"},
    {"RONDO_TLS_CERTIFICATE", "with certificates: file of this process's certificate"},
    {"RONDO_TLS_KEY", "with certificates: file of this process's key"},
    {"RONDO_TLS_PSK", "with psk: the job's key, 64 hexadecimal digits (default: made from RONDO_TOKEN)", true},
    {"RONDO_TOKEN", "the job's secret; processes without it are refused", true},
    {"RONDO_TRANSPORT", "only for rondo_torch; auto (default), tcp, shm or ib; equal on all ranks"},
    {"RONDO_WORLD_SIZE", "number of ranks; takes precedence over WORLD_SIZE"},
}};

std::optional<int> NumberIn(const EnvironmentFacts& facts, const std::string& name) {
  const auto found = facts.variables.find(name);
  if (found == facts.variables.end()) return std::nullopt;
  int number = 0;
  const char* const end = found->second.data() + found->second.size();
  const auto [stop, error] = std::from_chars(found->second.data(), end, number);
  return error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

void JudgeOwn(const EnvironmentFacts& facts, std::vector<Finding>& findings) {
  for (const auto& variable : facts.variables) {
    const std::string &name = variable.first, &value = variable.second;
    if (!name.starts_with("RONDO_")) continue;
    const auto own = std::find_if(kOwn.begin(), kOwn.end(), [&](const auto& known) { return known.name == name; });
    if (own == kOwn.end())
      findings.push_back({Level::kWarn, name, "is set, but Rondo reads no variable of that name",
                          "rondo run --help and docs/REFERENCE.md list the variables that Rondo reads"});
    else
      findings.push_back({Level::kOk, name, fmt::format("{}: {}", own->secret ? "set" : value, own->what)});
  }
}

// Checks the variables of Gloo and NCCL. GLOO_SOCKET_IFNAME contains exact interface names. NCCL_SOCKET_IFNAME contains
// prefixes of names, and supports "^" and "=".
void JudgeNeighbours(const EnvironmentFacts& facts, const NetworkFacts& network, std::vector<Finding>& findings) {
  const std::string ours = "Rondo does not read it; use --interface for Rondo";
  if (const auto gloo = facts.variables.find("GLOO_SOCKET_IFNAME"); gloo != facts.variables.end()) {
    std::set<std::string> names;
    for (const auto& address : network.addresses) names.insert(address.interface);
    std::string absent;
    for (const std::string& name : SplitAtCommas(gloo->second))
      if (names.count(name) == 0) absent += (absent.empty() ? "" : ", ") + name;
    findings.push_back(absent.empty()
                           ? Finding{Level::kOk, gloo->first, fmt::format("{}; {}", gloo->second, ours)}
                           : Finding{Level::kWarn, gloo->first,
                                     fmt::format("no interface with an address is called '{}' here: Gloo "
                                                 "fails; {}",
                                                 absent, ours),
                                     "give exact names of interfaces (ip -brief addr), or unset the variable"});
  }
  if (const auto nccl = facts.variables.find("NCCL_SOCKET_IFNAME"); nccl != facts.variables.end()) {
    const auto expression = tcp::InterfaceExpression::Parse(nccl->second);
    const bool any = expression && std::any_of(network.addresses.begin(), network.addresses.end(), [&](const auto& a) {
                       return tcp::Classify(a) != tcp::AddressClass::kLoopback && expression->Matches(a);
                     });
    findings.push_back(
        any ? Finding{Level::kOk, nccl->first, fmt::format("{}; {}", nccl->second, ours)}
            : Finding{Level::kWarn, nccl->first,
                      fmt::format("'{}' matches no interface here except loopback: NCCL fails; {}", nccl->second, ours),
                      "give the beginnings of names of interfaces (ip -brief addr), or unset the variable"});
  }
}

void JudgeMaster(const EnvironmentFacts& facts, std::vector<Finding>& findings) {
  if (!facts.master) return;
  const NameFacts& master = *facts.master;
  const std::string subject = "MASTER_ADDR";
  if (master.addresses.empty()) {
    findings.push_back({Level::kBad, subject, fmt::format("{} does not resolve: {}", master.name, master.error),
                        "give the address of the host of rank 0"});
    return;
  }
  const bool loopback = std::all_of(master.addresses.begin(), master.addresses.end(),
                                    [](const IpAddress& ip) { return ip.IsLoopback(); });
  const auto world = NumberIn(facts, "WORLD_SIZE"), local = NumberIn(facts, "LOCAL_WORLD_SIZE");
  const std::string where = fmt::format("{} ({})", master.name, master.addresses.front().ToString());
  if (loopback && world && local && *world > *local)
    findings.push_back(
        {Level::kBad, subject,
         fmt::format(
             "{} is loopback, but {} of {} ranks are on other hosts: these look for the store on their own host", where,
             *world - *local, *world),
         "give the address of the host of rank 0 that the other hosts can reach"});
  else
    findings.push_back({Level::kOk, subject, where});
}

}  // namespace

std::string_view Name(Level level) {
  switch (level) {
    case Level::kOk: return "ok";
    case Level::kWarn: return "warn";
    case Level::kBad: return "bad";
  }
  return "?";
}

std::vector<Finding> JudgeEnvironment(const EnvironmentFacts& facts, const NetworkFacts& network) {
  std::vector<Finding> findings;
  for (const std::string& folder : facts.missing) {
    const bool proc = folder == "/proc";
    findings.push_back({Level::kWarn, folder,
                        proc
                            ? "is not mounted: the identity of the host, its memory, limits and settings cannot be read"
                            : "is not mounted: RDMA devices, GPUs, speeds of links and cores cannot be read",
                        proc ? "mount -t proc proc /proc" : "mount -t sysfs sysfs /sys"});
  }
  JudgeMaster(facts, findings);
  JudgeNeighbours(facts, network, findings);
  JudgeOwn(facts, findings);
  return findings;
}

std::vector<Section> Judge(const ExaminedHost& facts, const PlannedJob& job) {
  std::vector<Section> sections{
      {"addresses", JudgeInterfaces(facts.network)},
      {"reach", JudgeReach(facts.network)},
      {"TCP", JudgeTcp(facts.network)},
      {"RDMA", JudgeRdma(facts.rdma, job)},
      {"GPU", JudgeGpu(facts.gpu, facts.rdma, job)},
      {"memory", JudgeMemory(facts.memory, job)},
      {"limits", JudgeLimits(facts.limits, job)},
      {"cores and clock", JudgeCpus(facts.cpus, job)},
      {"environment", JudgeEnvironment(facts.environment, facts.network)},
  };
  std::erase_if(sections, [](const Section& section) { return section.findings.empty(); });
  return sections;
}

}  // namespace rondo
