// rondo doctor: checks environment variables that silently change a job's behaviour; and the order of all sections.
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

// The variables that Rondo and its tools read.
constexpr std::array<OwnVariable, 27> kOwn{{
    {"RONDO_ADDRESSES", "of rondo_torch: local addresses to use"},
    {"RONDO_BLOCKING_WAIT", "of rondo_torch: whether wait() on a GPU's work waits in the host"},
    {"RONDO_EXTERNAL_STORE", "no rank serves the store"},
    {"RONDO_INTERFACE", "of rondo_torch: interfaces to use"},
    {"RONDO_JOB", "the job that ranks must agree on"},
    {"RONDO_JOIN", "ranks join a job that runs"},
    {"RONDO_LAUNCHER", "who started the ranks"},
    {"RONDO_MASTER_ADDR", "comes before every launcher's host of rank 0"},
    {"RONDO_MASTER_PORT", "comes before every launcher's port"},
    {"RONDO_PMIX_LIBRARY", "the PMIx library that is loaded"},
    {"RONDO_PORTS", "TCP ports to listen on"},
    {"RONDO_PROFILE", "algorithms are chosen by it"},
    {"RONDO_RAILS", "of rondo_torch: connections to each peer"},
    {"RONDO_RANK", "comes before every launcher's rank"},
    {"RONDO_RECORD_DIR", "of rondo_torch: a failed job leaves its last operations there"},
    {"RONDO_RENDEZVOUS", "comes before every launcher's meeting place"},
    {"RONDO_RESTART", "of a rank that was started again"},
    {"RONDO_STORE", "where rondo run serves its store"},
    {"RONDO_TIMEOUT", "seconds to meet, and for each operation"},
    {"RONDO_TLS", "connections are encrypted, or not"},
    {"RONDO_TLS_CA", "certificates must be signed by it"},
    {"RONDO_TLS_CERTIFICATE", "this side's certificate"},
    {"RONDO_TLS_KEY", "this side's key"},
    {"RONDO_TLS_PSK", "who does not know it is refused", true},
    {"RONDO_TOKEN", "who does not know it is refused", true},
    {"RONDO_TRANSPORT", "of rondo_torch: auto, tcp, shm or ib"},
    {"RONDO_WORLD_SIZE", "comes before every launcher's"},
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
                          "rondo run --help and docs/LAUNCHERS.md list those that there are"});
    else
      findings.push_back({Level::kOk, name, fmt::format("{}: {}", own->secret ? "set" : value, own->what)});
  }
}

// GLOO_SOCKET_IFNAME has exact names. NCCL_SOCKET_IFNAME has prefixes of names, and knows "^" and "=".
void JudgeNeighbours(const EnvironmentFacts& facts, const NetworkFacts& network, std::vector<Finding>& findings) {
  const std::string ours = "Rondo does not read it: --interface says it to Rondo";
  if (const auto gloo = facts.variables.find("GLOO_SOCKET_IFNAME"); gloo != facts.variables.end()) {
    std::set<std::string> names;
    for (const auto& address : network.addresses) names.insert(address.interface);
    std::string absent;
    for (const std::string& name : SplitAtCommas(gloo->second))
      if (names.count(name) == 0) absent += (absent.empty() ? "" : ", ") + name;
    findings.push_back(absent.empty() ? Finding{Level::kOk, gloo->first, fmt::format("{}; {}", gloo->second, ours)}
                                      : Finding{Level::kWarn, gloo->first,
                                                fmt::format("no interface with an address is called '{}' here: Gloo "
                                                            "fails; {}",
                                                            absent, ours),
                                                "say exact names (ip -brief addr), or unset it"});
  }
  if (const auto nccl = facts.variables.find("NCCL_SOCKET_IFNAME"); nccl != facts.variables.end()) {
    const auto expression = tcp::InterfaceExpression::Parse(nccl->second);
    const bool any = expression && std::any_of(network.addresses.begin(), network.addresses.end(), [&](const auto& a) {
                       return tcp::Classify(a) != tcp::AddressClass::kLoopback && expression->Matches(a);
                     });
    findings.push_back(
        any ? Finding{Level::kOk, nccl->first, fmt::format("{}; {}", nccl->second, ours)}
            : Finding{Level::kWarn, nccl->first,
                      fmt::format("'{}' fits no interface here but loopback: NCCL fails; {}", nccl->second, ours),
                      "say beginnings of names (ip -brief addr), or unset it"});
  }
}

void JudgeMaster(const EnvironmentFacts& facts, std::vector<Finding>& findings) {
  if (!facts.master) return;
  const NameFacts& master = *facts.master;
  const std::string subject = "MASTER_ADDR";
  if (master.addresses.empty()) {
    findings.push_back({Level::kBad, subject, fmt::format("{} does not resolve: {}", master.name, master.error),
                        "say the address of the host of rank 0"});
    return;
  }
  const bool loopback = std::all_of(master.addresses.begin(), master.addresses.end(),
                                    [](const IpAddress& ip) { return ip.IsLoopback(); });
  const auto world = NumberIn(facts, "WORLD_SIZE"), local = NumberIn(facts, "LOCAL_WORLD_SIZE");
  const std::string where = fmt::format("{} ({})", master.name, master.addresses.front().ToString());
  if (loopback && world && local && *world > *local)
    findings.push_back({Level::kBad, subject,
                        fmt::format("{} is loopback, but {} of {} ranks are on other hosts: they look for the store on "
                                    "their own",
                                    where, *world - *local, *world),
                        "say the address of the host of rank 0 that the others reach"});
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
                        proc ? "is not mounted: which host this is, memory, limits and settings cannot be read"
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
