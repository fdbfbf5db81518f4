// The facts about this host that `rondo doctor` collects: plain values, so that a test can describe any host. The
// functions of probe.h fill them in; those of findings.h judge them.
//
// If the system does not provide a fact, a number is absent (or 0 if its type has no absent value), and a text is
// empty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/net/ip.h"
#include "base/result.h"
#include "cuda/survey.h"
#include "transport/ib/device_memory_probe.h"
#include "transport/shm/shared_memory.h"
#include "transport/tcp/interfaces.h"

namespace rondo {

// ---- network ----

struct InterfaceFacts {
  std::uint64_t mtu_bytes = 0;
  std::uint64_t speed_mbps = 0;
};

struct NameFacts {
  std::string name;
  std::vector<IpAddress> addresses;
  std::string error;  // why no address was found for the name
};

// One attempt at a TCP connection.
struct Attempt {
  // The outcomes, from best to worst. kUntried: no socket could be created for the attempt.
  enum class Outcome : std::uint8_t { kReached, kRefused, kTimedOut, kFailed, kUntried };

  tcp::LocalAddress from;
  Outcome outcome = Outcome::kFailed;
  std::string words;  // for kFailed and kUntried: the system's message
};

struct PeerFacts {
  std::string name;                // as the user gave it: "node2:29500"
  std::string error;               // why no attempt was possible
  std::vector<std::string> tried;  // the numeric addresses of the peer
  std::vector<Attempt> attempts;   // the best attempt from each local address
};

// A detour: two interfaces are in one subnet and share a routing table, so packets from an address to its own subnet
// leave by the other interface.
struct Detour {
  tcp::LocalAddress from;
  std::string by;
};

struct NetworkFacts {
  std::vector<tcp::LocalAddress> addresses;
  std::string addresses_error;
  std::map<std::string, InterfaceFacts> interfaces;
  NameFacts host;
  std::vector<Attempt> self;  // connection attempts from each address to a listening port of the same address
  std::vector<PeerFacts> peers;
  std::vector<Detour> detours;
  std::vector<std::string> dropping_chains;  // "nft ip filter INPUT": chains that drop or reject packets by default
  std::string rules_unseen;                  // why the rules of the packet filter are not known
  std::string port_range;                    // the range of ephemeral ports: "32768 to 60999"

  std::optional<std::uint64_t> listen_backlog_most;  // net.core.somaxconn
  std::optional<std::uint64_t> send_buffer_most, receive_buffer_most;
  std::string congestion_control;  // the default congestion control algorithm of a new socket
  // The algorithm that the kernel really sets if a socket requests the algorithm that Rondo uses within a host.
  std::string local_congestion_control;
};

// ---- RDMA and GPUs ----

struct RdmaGid {
  int index = 0;
  std::string type;  // "RoCE v2", "IB/RoCE v1"
  IpAddress ip;
};

struct RdmaPort {
  enum class State : std::uint8_t { kUnknown, kDown, kInitializing, kArmed, kActive };

  std::string name;  // "mlx5_0:1"
  State state = State::kUnknown;
  std::string physical_state;  // "LinkUp", "Polling", "Disabled"
  std::string rate;            // "100 Gb/sec (4X EDR)"
  bool ethernet = false;
  std::vector<RdmaGid> gids;
  int mtu_bytes = 0, most_mtu_bytes = 0;  // as reported by libibverbs
};

struct DeviceNode {
  std::string path;
  bool exists = false;
  bool usable = false;  // this user may read and write the device file
};

struct RdmaFacts {
  std::vector<RdmaPort> ports;
  std::vector<DeviceNode> nodes;
  std::string verbs_error;                    // why libibverbs cannot be used
  std::string chosen;                         // the port that Rondo would use, with the reason and its standby ports
  std::string chosen_error;                   // why Rondo can use no port
  std::optional<std::uint64_t> memlock_most;  // absent: no limit
  bool memlock_exempt = false;                // CAP_IPC_LOCK
};

struct GpuFacts {
  int nvidia_gpus = 0;          // the number of NVIDIA GPUs of this host or container
  ib::DeviceMemoryFacts reach;  // the facts that determine how RDMA adapters could access GPU memory
  bool open_driver = false;     // whether the driver has open kernel modules, which can export memory as dma-buf
  bool built_with_cuda = true;  // whether this program is built with CUDA
  Result<GpuSurvey> survey = Fail(ErrorCode::kUnsupported, "NVIDIA's driver was not asked for GPUs");
};

// ---- the host ----

struct MemoryFacts {
  bool dev_shm = false;
  std::string dev_shm_type;  // "tmpfs"
  std::uint64_t dev_shm_bytes = 0, dev_shm_free_bytes = 0;
  shm::Room room;                                // the shared memory that ranks could allocate now
  std::string host_error;                        // why the host has no id; without an id, ranks share no memory
  std::optional<std::uint64_t> file_bytes_most;  // RLIMIT_FSIZE; absent: no limit
  std::string memfd_error;                       // why no anonymous shared memory can be made
  std::string read_error;                        // why a process cannot read the memory of a sibling
  std::optional<std::uint64_t> ptrace_scope;     // the setting of Yama
};

struct LimitFacts {
  std::optional<std::uint64_t> files, files_hard;  // absent: no limit
  std::optional<std::uint64_t> processes;          // the limit on processes of this user; threads count as processes
  std::optional<std::uint64_t> group_tasks_left;   // the number of further tasks that the cgroup allows
};

struct CpuFacts {
  int online = 0;
  int usable = 0;       // number of CPU cores in this process's affinity mask
  double quota = 0;     // CPU time that the cgroup allows, in cores; 0: no limit
  int powersaving = 0;  // number of CPU cores whose governor is "powersave"
  std::string clock_source;
  double clock_ns = 0;  // time to read the clock once
  std::optional<bool> clock_synced;
};

struct EnvironmentFacts {
  std::vector<std::string> missing;  // which of /proc and /sys are not mounted
  std::map<std::string, std::string> variables;
  std::optional<NameFacts> master;  // the name in MASTER_ADDR
};

struct ExaminedHost {
  NetworkFacts network;
  RdmaFacts rdma;
  GpuFacts gpu;
  MemoryFacts memory;
  LimitFacts limits;
  CpuFacts cpus;
  EnvironmentFacts environment;
};

}  // namespace rondo
