#include "tools/perf/session.h"

#include <fmt/core.h>

#include <cstdio>
#include <optional>
#include <sstream>

#include "base/version.h"
#include "tools/common/output.h"
#include "tools/common/progress.h"
#include "tools/common/sizes.h"
#include "tools/perf/bench.h"
#include "tools/perf/html.h"
#include "tools/perf/report.h"
#include "tools/perf/rows_json.h"

namespace rondo {
namespace {

// Prints and writes the results on rank 0. Does nothing on the other ranks.
class Reporter {
 public:
  Reporter(const Communicator& communicator, const Clock& clock, const PerfOptions& options, const PerfOutputs& outputs,
           std::size_t cases)
      : communicator_(communicator),
        outputs_(outputs),
        speaks_(communicator.rank() == 0),
        table_(outputs.StdoutIsData() ? stderr : stdout),
        progress_(clock, speaks_ ? cases : 0) {
    if (!speaks_) return;
    const HostFacts host = ThisHost();
    const std::string ranks = outputs.launch.empty() ? "" : "\n# Ranks: " + outputs.launch;
    const char* const checks = options.checksums && options.compare_results ? " with checksums, results compared"
                               : options.checksums                          ? " with checksums"
                               : options.compare_results                    ? ", results compared"
                                                                            : "";
    const char* const memory = options.memory == PerfMemory::kCuda     ? " on GPUs"
                               : options.memory == PerfMemory::kGraph  ? " on GPUs, in graphs,"
                               : options.memory == PerfMemory::kStaged ? " on GPUs, staged through the host,"
                               : options.memory == PerfMemory::kPinned ? " in pinned memory"
                                                                       : "";
    const std::string rails = options.rails > 1 ? fmt::format(" on {} rails", options.rails) : "";
    Print(TableHead(fmt::format("rondo {}: {} ranks{} over {}{}{}, seen from {} ({} cores){}", kRondoVersion,
                                communicator.world_size(), memory, communicator.Transports(), rails, checks, host.name,
                                host.cores, ranks),
                    outputs.predicted));
  }

  void Next(const PerfCase& which) {
    if (speaks_) {
      progress_.Update(done_, fmt::format("{} {} {} {}", which.Subject(), which.TypeName(), which.OpName(),
                                          FormatSize(which.bytes())));
    }
    ++done_;
  }
  void Line(const std::optional<PerfRow>& out_of_place, const std::optional<PerfRow>& in_place) {
    if (!speaks_) return;
    progress_.Clear();
    const std::string heading = (out_of_place ? *out_of_place : *in_place).of.Subject();
    if (heading != heading_) Print("# " + heading + "\n");
    heading_ = heading;
    Print(TableLine(out_of_place, in_place, outputs_.predicted));
  }

  Result<PerfVerdict> Finish(const std::vector<PerfRow>& rows) {
    PerfVerdict verdict{.wrong = CountWrong(rows)};
    if (!speaks_) return verdict;
    progress_.Clear();
    Print(TableFoot(rows));
    // Prints the paths that were chosen, with address, interface and congestion control.
    std::istringstream paths(communicator_.DescribePaths());
    for (std::string line; std::getline(paths, line);)
      Print((line.starts_with("rank ") ? "# Path to " : "# ") + line + "\n");
    const HostFacts host = ThisHost();
    if (!outputs_.json.empty()) RONDO_TRY(WriteOutput("--json", outputs_.json, ToJson(rows, host)));
    if (!outputs_.csv.empty()) RONDO_TRY(WriteOutput("--csv", outputs_.csv, ToCsv(rows)));
    if (!outputs_.html.empty()) RONDO_TRY(WriteOutput("--html", outputs_.html, ToHtml(rows, host)));
    if (!outputs_.baseline.empty()) {
      RONDO_ASSIGN(verdict.regressed, Regressed(rows));
    }
    return verdict;
  }

 private:
  void Print(const std::string& text) {
    fmt::print(table_, "{}", text);
    std::fflush(table_);
  }

  Result<bool> Regressed(const std::vector<PerfRow>& rows) {
    RONDO_ASSIGN(const std::string text, ReadBaseline(outputs_.baseline));
    const auto report = CompareWithBaseline(rows, text, outputs_.max_regression);
    if (!report)
      return Fail(ErrorCode::kInvalidArgument, "--baseline: {}: {}", outputs_.baseline, report.error().message());
    if (report->compared == 0) {
      return Fail(ErrorCode::kInvalidArgument, "--baseline: {} has none of these rows", outputs_.baseline);
    }
    Print(fmt::format("# Baseline {}: {} of {} rows compared, {} slower by more than {:.4g}%\n", outputs_.baseline,
                      report->compared, rows.size(), report->regressions.size(), 100 * outputs_.max_regression));
    for (const Regression& worse : report->regressions) {
      Print(fmt::format("#   {} {} {} {} {} B {}: {:.2f} us, was {:.2f} ({:+.1f}%)\n", worse.now.of.Subject(),
                        worse.now.AlgorithmText(), worse.now.of.TypeName(), worse.now.of.OpName(), worse.now.of.bytes(),
                        worse.now.in_place ? "in place" : "out of place", worse.now.median_us, worse.was_us,
                        100 * (worse.now.median_us / worse.was_us - 1)));
    }
    return !report->regressions.empty();
  }

  const Communicator& communicator_;
  const PerfOutputs& outputs_;
  const bool speaks_;
  std::FILE* const table_;
  ProgressLine progress_;
  std::size_t done_ = 0;
  std::string heading_;  // the heading above the latest printed line
};

}  // namespace

Result<PerfVerdict> MeasureAll(Communicator& communicator, const Clock& clock, const PerfOptions& options,
                               const std::vector<PerfCase>& cases, const PerfOutputs& outputs) {
  const auto complain = [&](const std::string& line) {
    PrintError("rondo perf: rank {}: {}\n", communicator.rank(), line);
  };
  PerfBench bench(communicator, clock, complain);
  RONDO_TRY(bench.Prepare(options, cases));
  Reporter reporter(communicator, clock, options, outputs, cases.size());
  std::vector<PerfRow> rows;
  for (const PerfCase& which : cases) {
    reporter.Next(which);
    std::optional<PerfRow> out_of_place, in_place;
    for (const bool here : Placements(options, which)) {
      RONDO_ASSIGN(PerfRow row, bench.Measure(which, here));
      rows.push_back(row);
      (here ? in_place : out_of_place) = std::move(row);
    }
    reporter.Line(out_of_place, in_place);
  }
  auto verdict = reporter.Finish(rows);
  // The other ranks have succeeded. If a file error occurred, the communicator is closed here, so that they get a
  // goodbye and not an abort.
  if (!verdict) static_cast<void>(communicator.Close());
  return verdict;
}

}  // namespace rondo
