// Collects the facts of facts.h. The Read functions take facts from files, so a test can use its own tree of files. The
// Ask functions query the kernel of this machine, and add the answers to the facts.
//
// They do not change the host. They only open and close sockets, allocate a page of memory, and start three short-lived
// children. But when NVIDIA's driver is queried, it may load modules, and may start an MPS server.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/net/ports.h"
#include "tools/doctor/facts.h"
#include "tools/doctor/files.h"

namespace rondo {

// ---- facts from files ----

// Reads MTU and speed of the interfaces that facts.addresses names, and the TCP settings.
void ReadNetwork(const HostFiles& files, NetworkFacts& facts);
void ReadRdma(const HostFiles& files, RdmaFacts& facts);
void ReadGpu(const HostFiles& files, GpuFacts& facts);
void ReadMounts(const HostFiles& files, EnvironmentFacts& facts);
void ReadMemory(const HostFiles& files, MemoryFacts& facts);
void ReadLimits(const HostFiles& files, LimitFacts& facts);
void ReadCpus(const HostFiles& files, CpuFacts& facts);

// Parses the output of `nft list ruleset`. Returns the chains that filter input and drop or reject packets by default,
// for example "nft inet filter input". The cause is the chain's policy, or a final rule that matches every packet.
std::vector<std::string> DroppingChains(const std::string& nft_ruleset);
// Whether the output of `iptables -S INPUT` shows a chain that drops or rejects packets by default.
bool DropsTheRest(const std::string& iptables_rules);
// The interface in the output of `ip route get`; "" if none is named.
std::string InterfaceOfRoute(const std::string& route);

// ---- facts from the kernel and the driver ----

struct NetworkQuestions {
  std::vector<std::string> peers;              // "node2:29500"
  Duration timeout = std::chrono::seconds(2);  // the time limit for each peer, and for the lookup of each name
  PortRange ports = {};  // ports on which this process may listen for its own attempts; not set: any port
};
void AskNetwork(const NetworkQuestions& questions, const Clock& clock, NetworkFacts& facts);
NameFacts Lookup(const std::string& name, const Clock& clock, Duration timeout);
// REQUIRES: ReadRdma has filled facts.ports, and `addresses` are those of this machine.
void AskRdma(const std::vector<tcp::LocalAddress>& addresses, RdmaFacts& facts);
// Finds out whether adapters can access GPU memory. REQUIRES: ReadRdma, ReadGpu and AskGpuDriver have run.
void AskGpuAdapters(const RdmaFacts& rdma, GpuFacts& facts);
// REQUIRES for the next two functions: this process has no other thread, because they fork.
void AskGpuDriver(const Clock& clock, Duration timeout, GpuFacts& facts);
void AskMemory(MemoryFacts& facts);
void AskLimits(LimitFacts& facts);
void AskCpus(CpuFacts& facts);

}  // namespace rondo
