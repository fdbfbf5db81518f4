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
    if (!value) return fmt::format("wants {} or all, not '{}'", nouns, name);
    wanted.values.push_back(*value);
  }
  return "";
}

// Parses collectives, and send_recv, which is no collective but is measured like one.
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
      "Smallest size in all of a rank's largest buffer, with K, M or G (default 8); after 0 comes one element, or one "
      "per rank");
  AddSize(
      perf, "-e,--max-bytes",
      [&flags](std::uint64_t b) { flags.measure.max_bytes = flags.of_matrix.pair.bandwidth_bytes = b; },
      "Largest size (default 64M)");
  CLI::Option* factor = AddNumber(
      perf, "-f,--step-factor", [&measure](std::int64_t f) { measure.step_factor = static_cast<std::uint64_t>(f); }, 2,
      1 << 30, "From one size to the next by multiplying (default 2)");
  AddSize(
      perf, "-i,--step-bytes", [&measure](std::uint64_t b) { measure.step_bytes = std::max<std::uint64_t>(b, 1); },
      "From one size to the next by adding")
      ->excludes(factor);
  CLI::Option* iterations = AddNumber(
      perf, "-n,--iters", [&measure](std::int64_t n) { measure.iterations = static_cast<int>(n); }, 1, 1'000'000,
      "Timed iterations per size (default: as many as fit into the time, and 4000 at most unless that is given)");
  CLI::Option* time =
      AddNumber(
          perf, "--time-ms", [&measure](std::int64_t ms) { measure.time_per_size = std::chrono::milliseconds(ms); }, 1,
          86'400'000,
          "Time in milliseconds that iterations go on, of each size, in place and out of place (default 200, less "
          "where many sizes are measured)")
          ->excludes(iterations);
  AddSeconds(
      perf, "--duration", [&measure](Duration duration) { measure.time_per_size = duration; },
      "The same as --time-ms in seconds, a fraction allowed; with --matrix of each measurement of a pair")
      ->excludes(iterations)
      ->excludes(time);
  AddNumber(
      perf, "-w,--warmup", [&measure](std::int64_t n) { measure.warmup = static_cast<int>(n); }, 0, 1'000'000,
      "Untimed iterations before (default 5, fewer where iterations are)");
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
  perf.add_flag("--in-place", flags.in_place, "Measure in place (default: both ways)");
  perf.add_flag("--out-of-place", flags.out_of_place, "Measure out of place");
  perf.add_flag("--uneven", measure.uneven, "A count of its own for every rank: all_gather_v, all_to_all_v and so on");
  AddChoice(
      perf, "--device", [&measure](const std::string& name) { measure.memory = ParsePerfMemory(name).value(); },
      {"host", "pinned", "cuda", "staged", "graph"},
      "Where buffers lie (default host). cuda: on a GPU, the nth of the host's for its nth rank, with times taken on "
      "its stream; graph: likewise, each operation captured into a CUDA graph once and launched each time; staged: "
      "likewise, and GPUs of one host do not read each other's memory; pinned: on the host, pinned for a GPU");
  AddSize(
      perf, "--device-window", [&flags](std::uint64_t bytes) { flags.device_window_bytes = bytes; },
      "Where memory of GPUs goes by way of the host: bytes of a window, of which three are under way at once "
      "(default 4M)");
  AddSize(
      perf, "--device-turns", [&flags](std::uint64_t bytes) { flags.device_turns_host_bytes = bytes; },
      "Where processes share a GPU that serves them by turns, as it does without MPS: up to how many bytes go by way "
      "of "
      "the host with --device cuda, too (default 1M; 0: none)");
  perf.add_flag(
      "--allocate", measure.allocate,
      "Buffers from Communicator::Allocate, which ranks of a host read where they lie and RDMA sends without a copy "
      "(default: plain memory, but of send_recv alone)");
  perf.add_flag("--reproducible", measure.reproducible,
                "Reductions in reproducible mode (left fold in rank order) beside the free choice, and what it costs");
  perf.add_flag("--wide-partials", measure.wide_partials,
                "Reductions of 16-bit floats travel and combine in float32, and round once");
  AddIntegrity(perf, flags.integrity);
  AddProfile(perf, flags.profile);
  perf.add_flag(
      "--predicted", flags.outputs.predicted,
      "A last column with the time that the profile promises: measured when it was made, or by the cost model (~)");
  AddNumber(
      perf, "--check", [&measure](std::int64_t on) { measure.check = on != 0; }, 0, 1,
      "1: every element is verified of each size's first result, and of the last where its input is known (default); "
      "0: none");
}

// Flags that do not apply to pairs of ranks: an error with --matrix.
constexpr std::array kUnfitForMatrix{
    "--step-factor",  "--step-bytes",    "--dtype",           "--op",      "--root",
    "--algorithm",    "--in-place",      "--out-of-place",    "--uneven",  "--device",
    "--reproducible", "--wide-partials", "--compare-results", "--profile", "--predicted"};

void AddMatrix(CLI::App& perf, PerfFlags& flags) {
  MatrixOptions& matrix = flags.of_matrix;
  CLI::Option* const asked = perf.add_flag(
      "--matrix", flags.matrix,
      "With send_recv: every pair of ranks by itself, latency and bandwidth each way and both ways at once; "
      "-b is the message of latency (default 8), -e that of bandwidth (default 1M), -n and -w count the messages "
      "(there and back, of latency) of each of the four measurements");
  AddNumber(
      perf, "--in-flight", [&matrix](std::int64_t n) { matrix.pair.in_flight = static_cast<int>(n); }, 1, 1024,
      "With --matrix: messages under way at once in each direction (default 8)")
      ->needs(asked);
  perf.add_flag("--report-gbits", matrix.gbits, "With --matrix: in Gbit/s instead of GB/s")->needs(asked);
  AddText(
      perf, "--min-gbps",
      [&matrix](const std::string& text) -> std::string {
        double gbps = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), gbps);
        if (error != std::errc() || end != text.data() + text.size() || !(gbps > 0)) return "wants Gbit/s, such as 180";
        matrix.min_gbps = gbps;
        return "";
      },
      "GBPS", "With --matrix: exit code 1 if a direction of a pair does less, in Gbit/s")
      ->needs(asked);
}

void AddRanks(CLI::App& perf, PerfFlags& flags) {
  CLI::Option* local = AddNumber(
      perf, "-N,--ranks", [&flags](std::int64_t n) { flags.local_ranks = static_cast<int>(n); }, 1, kMaxWorldSize,
      "Start that many ranks on this host; without it the ranks come from the environment or by hand");
  AddText(
      perf, "--rendezvous", [&flags](const std::string& url) { return flags.rendezvous = url, std::string(); }, "URL",
      "Where ranks meet: tcp://host:port, file:///path, env:// (default: what the launcher says)")
      ->excludes(local);
  AddNumber(
      perf, "--rank", [&flags](std::int64_t r) { flags.rank = static_cast<Rank>(r); }, 0, kMaxWorldSize - 1,
      "This process's rank")
      ->excludes(local);
  AddNumber(
      perf, "--world-size", [&flags](std::int64_t w) { flags.world_size = static_cast<int>(w); }, 1, kMaxWorldSize,
      "How many ranks there are")
      ->excludes(local);
  AddChoice(
      perf, "--transport", [&flags](const std::string& name) { flags.transport = name; },
      {"auto", "tcp", "shm", "ib", "inproc"},
      "How bytes travel. auto: memory between ranks of one host; to others RDMA where both have a port, else sockets; "
      "tcp: sockets alone; shm: as auto, but all ranks must be on one host; ib: RDMA alone; inproc: ranks are threads "
      "of one process");
  AddNumber(
      perf, "--rails,--qp", [&flags](std::int64_t n) { flags.measure.rails = static_cast<std::uint32_t>(n); }, 1,
      kMostRails,
      "Parallel connections to each peer, which carry a share each of a large collective (default 1); where there are "
      "several addresses or RDMA ports, they take these in turn; with --matrix each is measured by itself");
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
      "RDMA device, port (mlx5_0:1) or its address; behind a + one that stands by until the first fails; of several, "
      "behind commas, each local rank takes one in turn (default: the fastest, the others stand by)");
  CLI::Option* each = AddText(
      perf, "--addresses",
      [&flags](const std::string& list) { return flags.rank_addresses = SplitAtCommas(list), std::string(); },
      "ADDR,ADDR[,...]",
      "Start one rank per local address and bind it to that: over RDMA where all are addresses of RDMA ports, else "
      "tcp");
  for (CLI::Option* other : {address, interface, ib_dev}) each->excludes(other);
  for (const char* other : {"--rendezvous", "--rank", "--world-size"}) each->excludes(perf.get_option(other));
  AddPorts(perf, flags.ports);
  AddTls(perf, flags.tls);
  AddSeconds(
      perf, "--timeout", [&flags](Duration timeout) { flags.given_timeout = timeout; },
      "For the ranks to meet, and for each operation (default: variable RONDO_TIMEOUT, else 60)");
  perf.add_flag("--launched", flags.launched)->group("");  // set by the launcher for its ranks, see CommandOfARank
}

void AddOutputs(CLI::App& perf, PerfOutputs& outputs) {
  perf.add_option("--json", outputs.json, "Write the rows as JSON; - is stdout")->type_name("FILE|-");
  perf.add_option("--csv", outputs.csv, "Write the rows as CSV; - is stdout")->type_name("FILE|-");
  perf.add_option("--html", outputs.html, "Write a page with charts")->type_name("FILE|-");
  perf.add_option("--record-dir", outputs.record_dir,
                  "Leave the last operations of every rank there for rondo trace: at the end, when the job fails, and "
                  "on SIGUSR1")
      ->type_name("DIR");
  CLI::Option* baseline =
      perf.add_option("--baseline", outputs.baseline, "Compare with what --json wrote earlier")->type_name("FILE");
  AddText(
      perf, "--max-regression",
      [&outputs](const std::string& text) -> std::string {
        double percent = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), percent);
        if (error != std::errc() || std::string_view(end) != "%" || !(percent >= 0) || !std::isfinite(percent)) {
          return fmt::format("wants a percentage such as 10%, not '{}'", text);
        }
        outputs.max_regression = percent / 100;
        return "";
      },
      "PERCENT%", "How much longer than the baseline a row may take (default 10%); exit code 1 beyond")
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
