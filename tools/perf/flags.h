// The command line of rondo perf: the values of its flags.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/net/ports.h"
#include "base/result.h"
#include "base/tls.h"
#include "tools/common/integrity_flags.h"
#include "tools/perf/case.h"
#include "tools/perf/matrix.h"
#include "tools/perf/outputs.h"

namespace CLI {
class App;
}  // namespace CLI

namespace rondo {

struct PerfFlags {
  PerfOptions measure;
  PerfOutputs outputs;
  std::optional<int> local_ranks;
  std::vector<std::string> command_line;  // of this process
  bool launched = false;                  // this process is one of the ranks that -N started
  std::string transport = "auto";
  std::string rendezvous;
  std::optional<Rank> rank;
  std::optional<int> world_size;
  std::vector<std::string> addresses;
  std::vector<std::string> rank_addresses;  // if not empty, one local rank is started for each address
  std::string interface;
  std::optional<PortRange> ports;
  std::vector<std::string> rdma_ports;
  std::optional<TlsMode> tls;
  std::optional<Duration> given_timeout;
  Duration timeout = std::chrono::seconds(60);  // the timeout in effect; see TakeTimeout
  std::shared_ptr<const Profile> profile;
  std::optional<std::uint64_t> device_window_bytes;
  std::optional<std::uint64_t> gpu_timeslice_staging_max_bytes;
  IntegrityFlags integrity;
  bool in_place = false;
  bool out_of_place = false;
  bool matrix = false;
  std::string unfit_for_matrix;  // a given flag that does not apply to pairs; "": none
  MatrixOptions of_matrix;
};

void AddPerfFlags(CLI::App& perf, PerfFlags& flags);

// Whether ranks of one host may have a shared segment.
bool SharesMemory(const PerfFlags& flags);

}  // namespace rondo
