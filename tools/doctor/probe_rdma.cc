// Collects facts about RDMA from device files and libibverbs.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <sstream>
#include <utility>
#include <vector>

#include "tools/doctor/probe.h"
#include "transport/ib/ports.h"
#include "transport/ib/verbs_library.h"

namespace rondo {
namespace {

constexpr int kCapIpcLock = 14;

// Parses a line like "4: ACTIVE".
RdmaPort::State StateOf(const std::string& line) {
  using State = RdmaPort::State;
  switch (line.empty() ? '0' : line.front()) {
    case '1': return State::kDown;
    case '2': return State::kInitializing;
    case '3': return State::kArmed;
    case '4': return State::kActive;
    default: return State::kUnknown;
  }
}

std::vector<RdmaGid> GidsIn(const HostFiles& files, const std::string& folder) {
  std::vector<RdmaGid> gids;
  for (const std::string& index : files.List(folder + "/gids")) {
    const auto ip = IpAddress::Parse(files.Line(fmt::format("{}/gids/{}", folder, index)));
    // GID tables are long, and most entries are empty.
    if (!ip || *ip == *IpAddress::Parse("::")) continue;
    gids.push_back({.index = static_cast<int>(ParseNumber(index).value_or(0)),
                    .type = files.Line(fmt::format("{}/gid_attrs/types/{}", folder, index)),
                    .ip = *ip});
  }
  return gids;
}

bool MayLockMemory(const HostFiles& files) {
  std::istringstream lines(files.Text("/proc/self/status").value_or(""));
  for (std::string word; lines >> word;) {
    std::uint64_t capabilities = 0;
    if (word == "CapEff:" && lines >> std::hex >> capabilities) return ((capabilities >> kCapIpcLock) & 1) != 0;
  }
  return false;
}

}  // namespace

void ReadRdma(const HostFiles& files, RdmaFacts& facts) {
  const std::string devices = "/sys/class/infiniband/";
  for (const std::string& device : files.List(devices))
    for (const std::string& number : files.List(devices + device + "/ports")) {
      const std::string folder = fmt::format("{}{}/ports/{}", devices, device, number);
      RdmaPort port;
      port.name = fmt::format("{}:{}", device, number);
      port.state = StateOf(files.Line(folder + "/state"));
      const std::string physical = files.Line(folder + "/phys_state");  // "5: LinkUp"
      port.physical_state = physical.substr(std::min(physical.size(), physical.find(' ') + 1));
      port.rate = files.Line(folder + "/rate");
      port.ethernet = files.Line(folder + "/link_layer") == "Ethernet";
      port.gids = GidsIn(files, folder);
      facts.ports.push_back(std::move(port));
    }
  for (const std::string& verbs : files.List("/sys/class/infiniband_verbs")) {
    if (!verbs.starts_with("uverbs")) continue;  // the folder also contains abi_version
    const std::string path = "/dev/infiniband/" + verbs;
    facts.nodes.push_back(
        {.path = path, .exists = files.Exists(path), .usable = access(files.Path(path).c_str(), R_OK | W_OK) == 0});
  }
  facts.memlock_exempt = MayLockMemory(files);
}

void AskRdma(const std::vector<tcp::LocalAddress>& addresses, RdmaFacts& facts) {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) facts.memlock_most = limit.rlim_cur;
  if (facts.ports.empty()) return;
  const auto library = ib::LoadVerbs();
  if (!library) {
    facts.verbs_error = library.error().message();
    return;
  }
  const auto ports = ib::EnumeratePorts(*library);
  if (!ports) {
    facts.chosen_error = ports.error().message();
    return;
  }
  for (const ib::Port& queried : *ports)
    for (RdmaPort& port : facts.ports)
      if (port.name == queried.Name()) {
        port.mtu_bytes = queried.mtu_bytes;
        port.most_mtu_bytes = queried.most_mtu_bytes;
      }
  const auto chosen = ib::ChoosePorts(*ports, addresses, "");
  if (!chosen) {
    facts.chosen_error = chosen.error().message();
    return;
  }
  const ib::ChosenPort& first = chosen->front();
  facts.chosen = fmt::format("Rondo uses {} {} ({})", first.port.Name(), first.gid.ToString(), first.reason);
  std::vector<std::string> standing_by;
  for (const ib::ChosenPort& other : std::span(*chosen).subspan(1)) standing_by.push_back(other.port.Name());
  if (!standing_by.empty()) facts.chosen += fmt::format("; its standby is {}", fmt::join(standing_by, ", "));
}

}  // namespace rondo
