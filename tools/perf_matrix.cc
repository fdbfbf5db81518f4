#include "tools/perf_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <tuple>
#include <utility>

#include "base/out_of_memory.h"
#include "tools/matrix_data.h"
#include "tools/matrix_html.h"
#include "tools/perf_report.h"
#include "tools/progress.h"
#include "tools/version.h"

namespace rondo {
namespace {

constexpr Tag kRow = 100, kPath = 101;

// What the lower rank of a pair tells all others.
using Packed = std::array<double, 9>;

Packed Pack(const PairRow& row, double line_gbps) {
  return {row.latency_min_us,
          row.latency_median_us,
          row.latency_p99_us,
          row.up_GBps,
          row.down_GBps,
          row.both_GBps,
          static_cast<double>(row.wrong_up),
          static_cast<double>(row.wrong_down),
          line_gbps};
}

PairRow Unpack(Rank low, Rank high, const Packed& packed) {
  return {.low = low,
          .high = high,
          .latency_min_us = packed[0],
          .latency_median_us = packed[1],
          .latency_p99_us = packed[2],
          .up_GBps = packed[3],
          .down_GBps = packed[4],
          .both_GBps = packed[5],
          .wrong_up = static_cast<std::uint64_t>(packed[6]),
          .wrong_down = static_cast<std::uint64_t>(packed[7])};
}

// The slower of two ends; one that does not know its line's speed has no say.
double Slower(double a, double b) { return a <= 0 ? b : b <= 0 ? a : std::min(a, b); }

class Session {
 public:
  Session(Communicator& communicator, const Clock& clock, const MatrixOptions& options)
      : communicator_(communicator), clock_(clock), self_(communicator.rank()) {
    matrix_.options = options;
    for (Rank rank = 0; rank < communicator.world_size(); ++rank)
      matrix_.ranks.push_back({communicator.peer(rank).host, communicator.peer(rank).ip});
  }

  // Complete on rank 0; on the others all but the words of paths.
  Result<Matrix> Measure() {
    const int ranks = communicator_.world_size();
    PairBench bench(communicator_, clock_, matrix_.options.pair);
    Progress progress(clock_, self_ == 0 ? static_cast<std::size_t>(ranks * (ranks - 1) / 2) : 0);
    for (Rank low = 0; low < ranks; ++low) {
      for (Rank high = low + 1; high < ranks; ++high) {
        if (self_ == 0) progress.Update(matrix_.pairs.size(), fmt::format("rank {} and rank {}", low, high));
        RONDO_ASSIGN(const PairRow row, bench.Measure(low, high));
        RONDO_TRY(Share(row));
      }
    }
    return std::move(matrix_);
  }

 private:
  // Everybody learns the row. What the higher end alone knows, the lower tells with the rest.
  Status Share(PairRow row) {
    std::array<double, 2> of_high{};
    double line_gbps = 0;
    if (self_ == row.high) {
      of_high = {static_cast<double>(row.wrong_up), communicator_.PathTo(row.low).line_gbps};
      RONDO_TRY(communicator_.Send(of_high.data(), of_high.size(), DataType::kFloat64, row.low, kRow));
    }
    if (self_ == row.low) {
      RONDO_TRY(communicator_.Recv(of_high.data(), of_high.size(), DataType::kFloat64, row.high, kRow));
      row.wrong_up = static_cast<std::uint64_t>(of_high[0]);
      line_gbps = Slower(of_high[1], communicator_.PathTo(row.high).line_gbps);
    }
    Packed packed = Pack(row, line_gbps);
    RONDO_TRY(
        communicator_.Broadcast(packed.data(), packed.data(), std::tuple_size_v<Packed>, DataType::kFloat64, row.low));
    matrix_.pairs.push_back(Unpack(row.low, row.high, packed));
    PairPaths paths{.transport = "", .from_low = "", .from_high = "", .line_gbps = packed.back()};
    const auto is_end = [&](Rank end) { return self_ == end || self_ == 0; };
    if (is_end(row.low)) {
      RONDO_ASSIGN(paths.transport, AtRankZero(row.low, communicator_.PathTo(row.high).transport));
      RONDO_ASSIGN(paths.from_low, AtRankZero(row.low, communicator_.PathTo(row.high).description));
    }
    if (is_end(row.high)) {
      RONDO_ASSIGN(paths.from_high, AtRankZero(row.high, communicator_.PathTo(row.low).description));
    }
    matrix_.paths.push_back(std::move(paths));
    return {};
  }

  // Rank 0 gets `teller`'s text. Called by these two.
  Result<std::string> AtRankZero(Rank teller, std::string text) {
    if (teller == 0) return text;
    std::uint64_t bytes = text.size();
    if (self_ == teller) {
      RONDO_TRY(communicator_.Send(&bytes, 1, DataType::kUint64, 0, kPath));
      RONDO_TRY(communicator_.Send(text.data(), bytes, DataType::kUint8, 0, kPath));
      return text;
    }
    RONDO_TRY(communicator_.Recv(&bytes, 1, DataType::kUint64, teller, kPath));
    text.assign(bytes, '\0');
    RONDO_TRY(communicator_.Recv(text.data(), bytes, DataType::kUint8, teller, kPath));
    return text;
  }

  Communicator& communicator_;
  const Clock& clock_;
  const Rank self_;
  Matrix matrix_;
};

Result<MatrixBaseline> OpenBaseline(const PerfOutputs& outputs, const MatrixOptions& options) {
  RONDO_ASSIGN(const std::string text, ReadBaseline(outputs.baseline));
  auto baseline = MatrixBaseline::Parse(text);
  const Status comparable = baseline ? baseline->CheckComparable(options.pair) : tl::unexpected(baseline.error());
  if (!comparable)
    return Fail(ErrorCode::kInvalidArgument, "--baseline: {}: {}", outputs.baseline, comparable.error().message());
  return baseline;
}

// Whether some pair became slower; says which.
Result<bool> Regressed(const Matrix& matrix, const PerfOutputs& outputs, std::FILE* table) {
  RONDO_ASSIGN(const MatrixBaseline baseline, OpenBaseline(outputs, matrix.options));
  const MatrixBaseline::Report report = baseline.Compare(matrix, outputs.max_regression);
  if (report.compared == 0)
    return Fail(ErrorCode::kInvalidArgument, "--baseline: {} has none of these pairs over these transports",
                outputs.baseline);
  fmt::print(table, "# Baseline {}: {} of {} directions compared, {} worse by more than {:.4g}%\n", outputs.baseline,
             report.compared, 2 * matrix.pairs.size(), report.regressions.size(), 100 * outputs.max_regression);
  for (const MatrixBaseline::Regression& worse : report.regressions) {
    fmt::print(table, "#   {} to {}: {} {:.4g} {}, was {:.4g} ({:+.1f}%)\n", matrix.NameOf(worse.from),
               matrix.NameOf(worse.to), worse.what, worse.now, worse.unit, worse.was,
               100 * (worse.now / worse.was - 1));
  }
  return !report.regressions.empty();
}

Result<bool> MeasureOrThrow(Communicator& communicator, const Clock& clock, const MatrixOptions& options,
                            const PerfOutputs& outputs) {
  RONDO_ASSIGN(const Matrix matrix, Session(communicator, clock, options).Measure());
  bool good = IsGood(matrix);
  if (communicator.rank() != 0) return good;
  std::FILE* const table = outputs.StdoutIsData() ? stderr : stdout;
  const HostFacts host = ThisHost();
  fmt::print(table, "# rondo {}: every pair of {} ranks over {}, seen from {} ({} cores){}\n{}", kRondoVersion,
             communicator.world_size(), communicator.Transports(), host.name, host.cores,
             outputs.launch.empty() ? "" : "\n# Ranks: " + outputs.launch, MatrixText(matrix));
  if (!outputs.json.empty()) RONDO_TRY(WriteOutput("--json", outputs.json, MatrixToJson(matrix, host)));
  if (!outputs.csv.empty()) RONDO_TRY(WriteOutput("--csv", outputs.csv, MatrixToCsv(matrix)));
  if (!outputs.html.empty()) RONDO_TRY(WriteOutput("--html", outputs.html, MatrixToHtml(matrix, host)));
  if (!outputs.baseline.empty()) {
    RONDO_ASSIGN(const bool regressed, Regressed(matrix, outputs, table));
    good = good && !regressed;
  }
  std::fflush(table);
  return good;
}

}  // namespace

Status CheckMatrixBaseline(const PerfOutputs& outputs, const MatrixOptions& options) {
  if (outputs.baseline.empty()) return {};
  const auto baseline = OpenBaseline(outputs, options);
  return baseline ? Status{} : tl::unexpected(baseline.error());
}

Result<bool> MeasureMatrix(Communicator& communicator, const Clock& clock, const MatrixOptions& options,
                           const PerfOutputs& outputs) {
  return OrOutOfMemory("measuring pairs of ranks",
                       [&] { return MeasureOrThrow(communicator, clock, options, outputs); });
}

}  // namespace rondo
