// Finds out what facts.h holds. Each Read function takes what files tell, and so can be given a tree of a
// test's; each Ask function asks the kernel of this machine, and what it answers is added.
//
// Nothing here changes the host: sockets are opened and closed, a page of memory is made, three children live
// for a moment. NVIDIA's driver, when asked, may load what it needs, and start a server of MPS.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/net/ports.h"
#include "tools/doctor/facts.h"
#include "tools/doctor/files.h"

namespace rondo {

// ---- what files tell ----

// Of the interfaces in facts.addresses; and the settings of TCP.
void ReadNetwork(const HostFiles& files, NetworkFacts& facts);
void ReadRdma(const HostFiles& files, RdmaFacts& facts);
void ReadGpu(const HostFiles& files, GpuFacts& facts);
void ReadMounts(const HostFiles& files, EnvironmentFacts& facts);
void ReadMemory(const HostFiles& files, MemoryFacts& facts);
void ReadLimits(const HostFiles& files, LimitFacts& facts);
void ReadCpus(const HostFiles& files, CpuFacts& facts);

// The chains of `nft list ruleset` that see what comes in, and drop or reject what no rule takes, by policy or by a
// last rule for everything: "nft inet filter input".
std::vector<std::string> DroppingChains(const std::string& nft_ruleset);
// The same of `iptables -S INPUT`.
bool DropsTheRest(const std::string& iptables_rules);
// The interface in what `ip route get` says; "": none.
std::string InterfaceOfRoute(const std::string& route);

// ---- what the kernel answers ----

struct NetworkQuestions {
  std::vector<std::string> peers;              // "node2:29500"
  Duration timeout = std::chrono::seconds(2);  // for each peer, and for each name
  PortRange ports = {};                        // for its own tries at listening; not set: any
};
void AskNetwork(const NetworkQuestions& questions, const Clock& clock, NetworkFacts& facts);
NameFacts Lookup(const std::string& name, const Clock& clock, Duration timeout);
// REQUIRES: facts.ports are read, `addresses` are this machine's.
void AskRdma(const std::vector<tcp::LocalAddress>& addresses, RdmaFacts& facts);
// What adapters say to memory of GPUs. REQUIRES: both are read, and the driver has been asked.
void AskGpuAdapters(const RdmaFacts& rdma, GpuFacts& facts);
// These two REQUIRE that there is no other thread.
void AskGpuDriver(const Clock& clock, Duration timeout, GpuFacts& facts);
void AskMemory(MemoryFacts& facts);
void AskLimits(LimitFacts& facts);
void AskCpus(CpuFacts& facts);

}  // namespace rondo
