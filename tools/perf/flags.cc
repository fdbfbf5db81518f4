#include "tools/perf/flags.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "collectives/algorithms/table.h"
#include "rendezvous/membership.h"
#include "tools/common/comma_list.h"
#include "tools/common/flags.h"
#include "tools/common/profile_flag.h"
#include "transport/rail.h"

namespace rondo {
namespace {

// Parses "all" or names separated by commas into `wanted`. Returns "" or the error; `nouns` says what was expected.
template <typename T, typename Parse>
std::string TakeNames(const std::string& text, const std::vector<T>& every, Parse parse, const std::string& nouns,
                      Wanted<T>& wanted) {
  wanted = {};
  if (text == "all") {
    wanted = {every, true};
    return "";
  }
  for (const std::string& name : SplitAtCommas(text)) {
    const auto value = parse(name);
    if (!value) return fmt::format("expected {} or all, got '{}'", nouns, name);
    wanted.values.push_back(*value);
  }
  return "";
}

// Parses the names of collectives. It also accepts send_recv, which is not a collective but is measured in the same
// way.
std::string TakeSubjects(const std::string& text, PerfOptions& measure) {
  const std::vector<Collective> every = DistinctCollectives();
  const std::string names = NamesOf(every) + ", send_recv";
  measure.send_recv = text == "all";
  std::string collectives;
  for (const std::string& name : SplitAtCommas(text)) {
    if (name == "send_recv") {
      measure.send_recv = true;
    } else {
      collectives += (collectives.empty() ? "" : ",") + name;
    }
  }
  measure.collectives = {};
  if (collectives.empty() && measure.send_recv) return "";
  return TakeNames(collectives, every, ParseCollective, "one of " + names, measure.collectives);
}

void AddWhatToMeasure(CLI::App& perf, PerfFlags& flags) {
  PerfOptions& measure = flags.measure;
  const std::string algorithms = "auto, " + NamesOf(DistinctAlgorithms()) + ", intranode (of ranks that share memory)";
  AddText(
      perf, "collective", [&measure](const std::string& text) { return TakeSubjects(text, measure); }, "COLLECTIVE",
      "What to measure: " + NamesOf(DistinctCollectives()) + ", send_recv (each rank to the next), all")
      ->required();
  AddSize(
      perf, "-b,--min-bytes",
      [&flags](std::uint64_t b) { flags.measure.min_bytes = flags.of_matrix.pair.latency_bytes = b; },
      "Smallest size of a rank's largest buffer, with K, M or G (default 8); after 0 comes one element, or one for "
      "each rank");
  AddSize(
      perf, "-e,--max-bytes",
      [&flags](std::uint64_t b) { flags.measure.max_bytes = flags.of_matrix.pair.bandwidth_bytes = b; },
      "Largest size (default 64M)");
  CLI::Option* factor = AddNumber(
      perf, "-f,--step-factor", [&measure](std::int64_t f) { measure.step_factor = static_cast<std::uint64_t>(f); }, 2,
      1 << 30, "Multiply each size by this for the next one (default 2)");
  AddSize(
      perf, "-i,--step-bytes", [&measure](std::uint64_t b) { measure.step_bytes = std::max<std::uint64_t>(b, 1); },
      "Add this to each size for the next one")
      ->excludes(factor);
  CLI::Option* iterations = AddNumber(
      perf, "-n,--iters", [&measure](std::int64_t n) { measure.iterations = static_cast<int>(n); }, 1, 1'000'000,
      "Timed iterations per size (default: as many as fit into the time; at most 4000 unless --time-ms is given)");
  CLI::Option* time =
      AddNumber(
          perf, "--time-ms", [&measure](std::int64_t ms) { measure.time_per_size = std::chrono::milliseconds(ms); }, 1,
          86'400'000,
          "Milliseconds for the iterations of each size, in place and out of place each (default 200, less "
          "if many sizes are measured)")
          ->excludes(iterations);
  AddSeconds(
      perf, "--duration", [&measure](Duration duration) { measure.time_per_size = duration; },
      "Like --time-ms, but in seconds, which may be a fraction; with --matrix: the time of each measurement of a pair")
      ->excludes(iterations)
      ->excludes(time);
  AddNumber(
      perf, "-w,--warmup", [&measure](std::int64_t n) { measure.warmup = static_cast<int>(n); }, 0, 1'000'000,
      "Untimed iterations before the timed ones (default 5, fewer if there are fewer timed ones)");
  AddText(
      perf, "-d,--dtype",
      [&measure](const std::string& text) {
        return TakeNames(text, {kAllDataTypes.begin(), kAllDataTypes.end()}, ParseDataType, NamesOf(kAllDataTypes),
                         measure.types);
      },
      "TYPE[,...]", "Types of elements (default float32): " + NamesOf(kAllDataTypes) + ", all");
  AddText(
      perf, "-o,--op",
      [&measure](const std::string& text) {
        return TakeNames(text, {kAllReduceOps.begin(), kAllReduceOps.end()}, ParseReduceOp, NamesOf(kAllReduceOps),
                         measure.ops);
      },
      "OP[,...]", "Operations of reductions (default sum): " + NamesOf(kAllReduceOps) + ", all");
  AddText(
      perf, "-r,--root",
      [&measure](const std::string& text) {
        const auto parse = [](const std::string& name) -> std::optional<Rank> {
          Rank root = 0;
          const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), root);
          const bool whole = error == std::errc() && end == name.data() + name.size() && root >= 0;
          return whole ? std::optional(root) : std::nullopt;
        };
        return TakeNames<Rank>(text, {}, parse, "a rank", measure.roots);
      },
      "RANK|all", "Root of collectives that have one (default 0)");
  AddText(
      perf, "--algorithm",
      [&measure, algorithms](const std::string& text) {
        const auto parse = [](const std::string& name) -> std::optional<std::optional<Algorithm>> {
          const std::optional<Algorithm> algorithm = ParseAlgorithm(name);
          if (!algorithm && name != "auto") return std::nullopt;
          return std::optional<std::optional<Algorithm>>(std::in_place, algorithm);
        };
        return TakeNames<std::optional<Algorithm>>(text, {}, parse, algorithms, measure.algorithms);
      },
      "NAME[,...]", "Algorithms (default auto): " + algorithms + ", all");
  perf.add_flag("--in-place", flags.in_place, "Measure in place (default: in place and out of place)");
  perf.add_flag("--out-of-place", flags.out_of_place, "Measure out of place");
  perf.add_flag("--uneven", measure.uneven,
                "Measure the variants with a different count for every rank, such as all_gather_v and all_to_all_v");
  AddChoice(
      perf, "--device", [&measure](const std::string& name) { measure.memory = ParsePerfMemory(name).value(); },
      {"host", "pinned", "cuda", "staged", "graph"},
      "Where buffers are (default host). cuda: on a GPU (the nth GPU of the host for its nth rank), with times "
      "measured on the GPU's stream; graph: like cuda, but each operation is captured into a CUDA graph once, and "
      "every iteration launches the graph; staged: like cuda, but GPUs of one host do not read each other's memory; "
      "pinned: in host memory that is pinned for a GPU");
  AddSize(
      perf, "--device-window", [&flags](std::uint64_t bytes) { flags.device_window_bytes = bytes; },
      "Size of a staging buffer in host memory, through which GPU memory is copied piece by piece; three are in use at "
      "once (default 4M)");
  AddSize(
      perf, "--gpu-timeslice-staging-max",
      [&flags](std::uint64_t bytes) { flags.gpu_timeslice_staging_max_bytes = bytes; },
      "With --device cuda: the largest operation that is staged through host memory if processes share a GPU without "
      "MPS (default 1M; 0: none)");
  perf.add_flag("--allocate", measure.allocate,
                "Use buffers from Communicator::Allocate, which ranks of one host read directly and RDMA sends without "
                "a copy (default: ordinary memory; send_recv alone always uses such buffers)");
  perf.add_flag(
      "--reproducible", measure.reproducible,
      "Also measure reductions in reproducible mode (left fold in rank order), and print how much longer this "
      "mode takes");
  perf.add_flag("--fp32-accumulate", measure.fp32_accumulate,
                "Keep partial results of reductions of 16-bit floats in float32, and round once, at the end");
  AddIntegrity(perf, flags.integrity);
  AddProfile(perf, flags.profile);
  perf.add_flag("--predicted", flags.outputs.predicted,
                "Add a last column with the predicted time, from the profile's measurements if possible, otherwise "
                "from the cost model (marked ~)");
  AddNumber(
      perf, "--check", [&measure](std::int64_t on) { measure.check = on != 0; }, 0, 1,
      "1: verify every element of each size's first result, and of the last if its input is known (default); "
      "0: verify nothing");
}

// Flags that do not apply to pairs of ranks: an error with --matrix.
constexpr std::array kUnfitForMatrix{
    "--step-factor",  "--step-bytes",      "--dtype",           "--op",      "--root",
    "--algorithm",    "--in-place",        "--out-of-place",    "--uneven",  "--device",
    "--reproducible", "--fp32-accumulate", "--compare-results", "--profile", "--predicted"};

void AddMatrix(CLI::App& perf, PerfFlags& flags) {
  MatrixOptions& matrix = flags.of_matrix;
  CLI::Option* const asked = perf.add_flag(
      "--matrix", flags.matrix,
      "With send_recv: measure latency, bandwidth in each direction, and bandwidth in both directions at once, for "
      "every pair of ranks separately. -b is the message size for latency (default 8), and -e for bandwidth (default "
      "1M). In each of the four measurements, -n is the number of messages (for latency: round trips), and -w that of "
      "untimed ones before them");
  AddNumber(
      perf, "--in-flight", [&matrix](std::int64_t n) { matrix.pair.in_flight = static_cast<int>(n); }, 1, 1024,
      "With --matrix: messages in flight in each direction (default 8)")
      ->needs(asked);
  perf.add_flag("--report-gbits", matrix.gbits, "With --matrix: report Gbit/s instead of GB/s")->needs(asked);
  AddText(
      perf, "--min-gbps",
      [&matrix](const std::string& text) -> std::string {
        double gbps = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), gbps);
        if (error != std::errc() || end != text.data() + text.size() || !(gbps > 0))
          return "expected Gbit/s above 0, such as 180";
        matrix.min_gbps = gbps;
        return "";
      },
      "GBPS", "With --matrix: exit code 1 if a direction of a pair is slower than this, in Gbit/s")
      ->needs(asked);
}

void AddRanks(CLI::App& perf, PerfFlags& flags) {
  CLI::Option* local = AddNumber(
      perf, "-N,--ranks", [&flags](std::int64_t n) { flags.local_ranks = static_cast<int>(n); }, 1, kMaxWorldSize,
      "Start this many ranks on this host; without it a launcher or the user starts them");
  AddText(
      perf, "--rendezvous", [&flags](const std::string& url) { return flags.rendezvous = url, std::string(); }, "URL",
      "Rendezvous of the ranks: tcp://host:port, file:///path or env:// (default: the one that the launcher gives)")
      ->excludes(local);
  AddNumber(
      perf, "--rank", [&flags](std::int64_t r) { flags.rank = static_cast<Rank>(r); }, 0, kMaxWorldSize - 1,
      "This process's rank")
      ->excludes(local);
  AddNumber(
      perf, "--world-size", [&flags](std::int64_t w) { flags.world_size = static_cast<int>(w); }, 1, kMaxWorldSize,
      "Number of ranks")
      ->excludes(local);
  AddChoice(
      perf, "--transport", [&flags](const std::string& name) { flags.transport = name; },
      {"auto", "tcp", "shm", "ib", "inproc"},
      "How ranks exchange bytes. auto: through memory within a host, and between hosts by RDMA if both have an RDMA "
      "port, otherwise by sockets; tcp: only by sockets; shm: like auto, but all ranks must be on one host; ib: only "
      "by RDMA; inproc: ranks are threads of one process");
  AddNumber(
      perf, "--rails,--qp", [&flags](std::int64_t n) { flags.measure.rails = static_cast<std::uint32_t>(n); }, 1,
      kMaxRails,
      "Parallel connections to each peer; each carries a share of a large collective (default 1). If there are several "
      "addresses or RDMA ports, the connections use them in turn; with --matrix each connection is measured "
      "separately");
  CLI::Option* address = AddText(
      perf, "--address",
      [&flags](const std::string& list) { return flags.addresses = SplitAtCommas(list), std::string(); }, "ADDR[,ADDR]",
      "Local addresses to use (default: chosen, see rondo explain)");
  CLI::Option* interface = AddText(
      perf, "--interface", [&flags](const std::string& expr) { return flags.interface = expr, std::string(); }, "EXPR",
      "Local interfaces to use: eth0,ib0 or ^docker0,lo or =eth0 or 10.0.0.0/8");
  CLI::Option* ib_dev = AddText(
      perf, "--ib-dev",
      [&flags](const std::string& list) { return flags.rdma_ports = SplitAtCommas(list), std::string(); },
      "DEV[:PORT][+...][,...]",
      "RDMA device, port (mlx5_0:1) or address of a port. After a + comes the standby, which is used if the first one "
      "fails. If there are several, separated by commas, the local ranks use them in turn (default: the fastest one, "
      "with the others as standby)");
  CLI::Option* each = AddText(
      perf, "--addresses",
      [&flags](const std::string& list) { return flags.rank_addresses = SplitAtCommas(list), std::string(); },
      "ADDR,ADDR[,...]",
      "Start one rank for each of these local addresses, and bind it to its address. RDMA is used if all are addresses "
      "of RDMA ports, otherwise tcp");
  for (CLI::Option* other : {address, interface, ib_dev}) each->excludes(other);
  for (const char* other : {"--rendezvous", "--rank", "--world-size"}) each->excludes(perf.get_option(other));
  AddPorts(perf, flags.ports);
  AddTls(perf, flags.tls);
  AddSeconds(
      perf, "--timeout", [&flags](Duration timeout) { flags.given_timeout = timeout; },
      "Limit for the rendezvous, and for each operation (default: variable RONDO_TIMEOUT, otherwise 60)");
  perf.add_flag("--launched", flags.launched)->group("");  // set by the launcher for its ranks, see CommandOfARank
}

void AddOutputs(CLI::App& perf, PerfOutputs& outputs) {
  perf.add_option("--json", outputs.json, "Write the rows as JSON; - is stdout")->type_name("FILE|-");
  perf.add_option("--csv", outputs.csv, "Write the rows as CSV; - is stdout")->type_name("FILE|-");
  perf.add_option("--html", outputs.html, "Write a page with charts")->type_name("FILE|-");
  perf.add_option("--record-dir", outputs.record_dir,
                  "Folder for records of every rank's latest operations, for rondo trace; they are written at the end, "
                  "when the job fails, and on SIGUSR1")
      ->type_name("DIR");
  CLI::Option* baseline =
      perf.add_option("--baseline", outputs.baseline, "Compare with this file, which an earlier run wrote by --json")
          ->type_name("FILE");
  AddText(
      perf, "--max-regression",
      [&outputs](const std::string& text) -> std::string {
        double percent = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), percent);
        if (error != std::errc() || std::string_view(end) != "%" || !(percent >= 0) || !std::isfinite(percent)) {
          return fmt::format("expected a percentage such as 10%, got '{}'", text);
        }
        outputs.max_regression = percent / 100;
        return "";
      },
      "PERCENT%", "How much longer than the baseline a row may take (default 10%); exit code 1 if one takes longer")
      ->needs(baseline);
}

}  // namespace

void AddPerfFlags(CLI::App& perf, PerfFlags& flags) {
  AddWhatToMeasure(perf, flags);
  AddMatrix(perf, flags);
  AddRanks(perf, flags);
  AddOutputs(perf, flags.outputs);
  perf.parse_complete_callback([&perf, &flags] {
    for (const char* const name : kUnfitForMatrix)
      if (perf.count(name) > 0 && flags.unfit_for_matrix.empty()) flags.unfit_for_matrix = name;
  });
}

}  // namespace rondo
