// What `rondo doctor` has found out about this host: plain values, so that a test can make any host up. probe.h
// fills them in, findings.h judges them.
//
// Where the system does not say, a number is absent and a text is empty.
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
  std::string error;  // why it has none
};

// One attempt at a TCP connection.
struct Attempt {
  // The best first. kUntried: not even a socket for it could be had.
  enum class Outcome : std::uint8_t { kReached, kRefused, kTimedOut, kFailed, kUntried };

  tcp::LocalAddress from;
  Outcome outcome = Outcome::kFailed;
  std::string words;  // of kFailed and kUntried: what the system said
};

struct PeerFacts {
  std::string name;                // as it was given: "node2:29500"
  std::string error;               // why nothing could be tried
  std::vector<std::string> tried;  // numeric addresses of it
  std::vector<Attempt> attempts;   // the best of each local address
};

// What leaves from one address for its own subnet, by another interface: two interfaces there, and one routing table.
struct Detour {
  tcp::LocalAddress from;
  std::string by;
};

struct NetworkFacts {
  std::vector<tcp::LocalAddress> addresses;
  std::string addresses_error;
  std::map<std::string, InterfaceFacts> interfaces;
  NameFacts host;
  std::vector<Attempt> self;  // from each address to a port of its own
  std::vector<PeerFacts> peers;
  std::vector<Detour> detours;
  std::vector<std::string> dropping_chains;  // that drop or reject what no rule of theirs takes: "nft ip filter INPUT"
  std::string rules_unseen;                  // why there may be packet filters that are not known
  std::string port_range;                    // of ports that the kernel gives out: "32768 to 60999"

  std::optional<std::uint64_t> listen_backlog_most;  // net.core.somaxconn
  std::optional<std::uint64_t> send_buffer_most, receive_buffer_most;
  std::string congestion_control;        // of a new socket
  std::string local_congestion_control;  // of one that has asked for what Rondo prefers within a host
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
  int mtu_bytes = 0, most_mtu_bytes = 0;  // as verbs say
};

struct DeviceNode {
  std::string path;
  bool exists = false;
  bool usable = false;  // by this user, to read and write
};

struct RdmaFacts {
  std::vector<RdmaPort> ports;
  std::vector<DeviceNode> nodes;
  std::string verbs_error;                    // why libibverbs is of no use
  std::string chosen;                         // which port Rondo would take, and why, and which ones stand by
  std::string chosen_error;                   // or why none
  std::optional<std::uint64_t> memlock_most;  // absent: no limit
  bool memlock_exempt = false;                // CAP_IPC_LOCK
};

struct GpuFacts {
  int nvidia_gpus = 0;          // of this host, or of this container
  ib::DeviceMemoryFacts reach;  // by which ways adapters could reach their memory
  bool open_driver = false;     // which hands memory out as dma-buf
  bool built_with_cuda = true;  // this program
  Result<GpuSurvey> survey = Fail(ErrorCode::kUnsupported, "NVIDIA's driver was not asked");
};

// ---- the host ----

struct MemoryFacts {
  bool dev_shm = false;
  std::string dev_shm_type;  // "tmpfs"
  std::uint64_t dev_shm_bytes = 0, dev_shm_free_bytes = 0;
  shm::Room room;                                // that ranks may share now
  std::string host_error;                        // why this host has no id, so that ranks share nothing
  std::optional<std::uint64_t> file_bytes_most;  // RLIMIT_FSIZE; absent: no limit
  std::string memfd_error;                       // why there is no anonymous shared memory
  std::string read_error;                        // why a process cannot read its sibling's memory
  std::optional<std::uint64_t> ptrace_scope;     // of Yama
};

struct LimitFacts {
  std::optional<std::uint64_t> files, files_hard;  // absent: no limit
  std::optional<std::uint64_t> processes;          // of this user, threads included
  std::optional<std::uint64_t> group_tasks_left;   // that the control group still allows
};

struct CpuFacts {
  int online = 0;
  int usable = 0;       // what affinity leaves
  double quota = 0;     // cores' worth of time that the control group allows; 0: all
  int powersaving = 0;  // cores whose governor is "powersave"
  std::string clock_source;
  double clock_ns = 0;  // what a look at the clock costs
  std::optional<bool> clock_synced;
};

struct EnvironmentFacts {
  std::vector<std::string> missing;  // of /proc and /sys, those that are not mounted
  std::map<std::string, std::string> variables;
  std::optional<NameFacts> master;  // of MASTER_ADDR
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
