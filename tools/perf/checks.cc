#include "tools/perf/checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <utility>

#include "collectives/connect.h"
#include "cuda/cuda.h"
#include "rendezvous/url/init_method.h"
#include "tools/common/flags.h"
#include "tools/common/output.h"
#include "tools/common/profile_flag.h"
#include "tools/perf/rows_json.h"
#include "transport/ib/ib.h"
#include "transport/shared_segment.h"
#include "transport/tcp/tcp.h"

namespace rondo {
namespace {

// Sets the timeout: from the flag, otherwise from the environment (where a launcher may have set it), otherwise the
// default.
Status TakeTimeout(PerfFlags& flags) {
  std::optional<Duration> timeout = flags.given_timeout;
  if (!timeout) {
    RONDO_ASSIGN(timeout, TimeoutIn(ProcessEnvironment));
  }
  if (timeout) flags.timeout = *timeout;
  return {};
}

// With --matrix, flags that do not apply to pairs of ranks are errors; they are not ignored.
Status CheckMatrix(const PerfFlags& flags) {
  if (!flags.measure.send_recv || !flags.measure.collectives.values.empty())
    return Fail(ErrorCode::kInvalidArgument, "--matrix measures messages between pairs: expected send_recv alone");
  if (flags.local_ranks.value_or(2) < 2)
    return Fail(ErrorCode::kInvalidArgument, "--matrix: expected at least two ranks");
  if (!flags.unfit_for_matrix.empty())
    return Fail(ErrorCode::kInvalidArgument,
                "{}: not allowed with --matrix, which measures messages of plain bytes between pairs of ranks",
                flags.unfit_for_matrix);
  if (flags.of_matrix.pair.bandwidth_bytes == 0)
    return Fail(ErrorCode::kInvalidArgument, "--max-bytes: --matrix needs messages of at least one byte");
  return {};
}

MatrixOptions MatrixOptionsOf(const PerfFlags& flags) {
  MatrixOptions options = flags.of_matrix;
  const PerfOptions& measure = flags.measure;
  options.pair.check = measure.check;
  if (measure.time_per_size) options.pair.time = *measure.time_per_size;
  if (measure.iterations) options.pair.iterations = static_cast<std::uint64_t>(*measure.iterations);
  if (measure.warmup) options.pair.warmup = static_cast<std::uint64_t>(*measure.warmup);
  options.checksums = flags.integrity.checksums;
  options.rails = measure.rails;
  return options;
}

// Refuses --ib-dev if it would be ignored. With --transport ib each rank checks its own port instead.
Status CheckRdmaPorts(const PerfFlags& flags) {
  if (flags.rdma_ports.empty() || flags.launched) return {};
  if (flags.transport == "tcp" || flags.transport == "shm")
    return Fail(ErrorCode::kInvalidArgument, "--ib-dev: --transport {} uses no RDMA device; expected ib or auto",
                flags.transport);
  if (flags.transport != "auto") return {};
  for (const std::string& port : flags.rdma_ports)
    if (const Status usable = CheckIbPort(port); !usable)
      return Fail(ErrorCode::kInvalidArgument, "--ib-dev: {}", usable.error().message());
  return {};
}

// Handles --addresses, which gives each local rank one address. Reports errors before any rank starts.
Status TakeRankAddresses(PerfFlags& flags) {
  const std::vector<std::string>& addresses = flags.rank_addresses;
  if (addresses.empty()) return {};
  const auto refuse = [](const std::string& why) { return Fail(ErrorCode::kInvalidArgument, "--addresses: {}", why); };
  const int ranks = static_cast<int>(addresses.size());
  if (flags.local_ranks.value_or(ranks) != ranks)
    return refuse(
        fmt::format("got {} addresses for --ranks {}; expected one for each rank", ranks, *flags.local_ranks));
  flags.local_ranks = ranks;
  if (flags.transport == "inproc" || flags.transport == "shm")
    return refuse(fmt::format("--transport {} uses no addresses; expected tcp or ib", flags.transport));
  // A user who names addresses wants to measure the network between them, not the shared memory of the host.
  std::string without_port;  // the addresses that have no RDMA port, if other addresses have one
  if (flags.transport == "auto") {
    const bool encrypted = flags.tls || ProcessEnvironment("RONDO_TLS");
    std::vector<std::string> portless;
    std::copy_if(addresses.begin(), addresses.end(), std::back_inserter(portless),
                 [](const std::string& address) { return !CheckIbPort(address); });
    flags.transport = !encrypted && portless.empty() ? "ib" : "tcp";
    if (!encrypted && portless.size() < addresses.size()) without_port = fmt::format("{}", fmt::join(portless, ", "));
  }
  if (flags.launched) return {};
  for (const std::string& address : addresses) {
    if (std::count(addresses.begin(), addresses.end(), address) > 1)
      return refuse(address + " appears twice: each rank needs its own");
    const Status local = CheckLocalAddresses({address});
    if (!local) return refuse(local.error().message());
    const Status port = flags.transport == "ib" ? CheckIbPort(address) : Status{};
    if (!port) return refuse(fmt::format("{}: {}", address, port.error().message()));
  }
  if (!without_port.empty())
    PrintError("rondo perf: --addresses: using tcp, because no active RDMA port has {}\n", without_port);
  return {};
}

// With --transport inproc the ranks are threads of this process and use no network.
Status CheckInProcess(const PerfFlags& flags) {
  if (!flags.local_ranks) return Fail(ErrorCode::kInvalidArgument, "--transport inproc needs -N RANKS");
  const char* const unused = !flags.addresses.empty()    ? "--address"
                             : !flags.interface.empty()  ? "--interface"
                             : !flags.rdma_ports.empty() ? "--ib-dev"
                             : flags.tls                 ? "--tls"
                                                         : nullptr;
  if (unused == nullptr) return {};
  return Fail(ErrorCode::kInvalidArgument, "{}: --transport inproc has no addresses and uses no network", unused);
}

// Checks the flags for GPUs, before any rank starts on this host.
Status CheckDevice(PerfFlags& flags) {
  PerfOptions& measure = flags.measure;
  if (flags.device_window_bytes && measure.memory != PerfMemory::kCuda && measure.memory != PerfMemory::kStaged)
    return Fail(ErrorCode::kInvalidArgument, "--device-window: expected --device cuda or staged, got {}",
                Name(measure.memory));
  if (flags.gpu_timeslice_staging_max_bytes && measure.memory != PerfMemory::kCuda)
    return Fail(ErrorCode::kInvalidArgument, "--gpu-timeslice-staging-max: expected --device cuda, got {}",
                Name(measure.memory));
  if (measure.memory == PerfMemory::kHost) return {};
  if (IsOnGpu(measure.memory) && measure.send_recv) {
    if (!measure.collectives.all)
      return Fail(ErrorCode::kInvalidArgument, "--device {}: send_recv supports only host memory",
                  Name(measure.memory));
    measure.send_recv = false;
  }
  if (flags.launched) return {};
  if (const auto gpus = OpenCuda(); !gpus)
    return Fail(gpus.error().With(
        [&](ErrorDetails& d) { d.message = fmt::format("--device {}: {}", Name(measure.memory), d.message); }));
  return {};
}

}  // namespace

bool SharesMemory(const PerfFlags& flags) { return flags.transport == "auto" || flags.transport == "shm"; }

Status CheckPerfFiles(const PerfFlags& flags) {
  const PerfOutputs& outputs = flags.outputs;
  RONDO_TRY(CheckFiles(outputs));
  if (flags.matrix) return CheckMatrixBaseline(outputs, flags.of_matrix);
  if (outputs.baseline.empty()) return {};
  RONDO_ASSIGN(const std::string text, ReadBaseline(outputs.baseline));
  if (const auto nothing = CompareWithBaseline({}, text, outputs.max_regression); !nothing)
    return Fail(ErrorCode::kInvalidArgument, "--baseline: {}: {}", outputs.baseline, nothing.error().message());
  return {};
}

Status SettlePerfFlags(PerfFlags& flags) {
  RONDO_TRY(TakeRankAddresses(flags));
  RONDO_TRY(TakeTimeout(flags));
  RONDO_TRY(TakeProfileOfEnvironment(flags.profile));
  flags.measure.checksums = flags.integrity.checksums;
  flags.measure.compare_results = flags.integrity.compare_results;
  flags.measure.in_place = flags.in_place || !flags.out_of_place;
  flags.measure.out_of_place = flags.out_of_place || !flags.in_place;
  if (flags.matrix) {
    RONDO_TRY(CheckMatrix(flags));
    flags.of_matrix = MatrixOptionsOf(flags);
  }
  if (flags.transport == "inproc") RONDO_TRY(CheckInProcess(flags));
  RONDO_TRY(CheckDevice(flags));
  if ((flags.outputs.json == "-") + (flags.outputs.csv == "-") + (flags.outputs.html == "-") > 1)
    return Fail(ErrorCode::kInvalidArgument, "--json, --csv and --html: only one of them can write to stdout");
  RONDO_TRY(CheckRdmaPorts(flags));
  RONDO_TRY(PrepareRecordDir(flags.outputs));
  if (!flags.local_ranks || flags.launched) return {};
  flags.measure.intranode = SharesMemory(flags) && *flags.local_ranks <= kMaxSharedSegmentRanks;
  if (!flags.matrix) RONDO_TRY(PlanCases(flags.measure, *flags.local_ranks));
  return CheckPerfFiles(flags);
}

}  // namespace rondo
