#include "tools/perf/matrix.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "base/out_of_memory.h"
#include "base/version.h"
#include "tools/common/output.h"
#include "tools/common/progress.h"
#include "tools/perf/json_values.h"
#include "tools/perf/matrix_html.h"
#include "tools/perf/matrix_json.h"
#include "tools/perf/report.h"

namespace rondo {
namespace {

constexpr Tag kRow = 100, kPath = 101;

// The results of a pair, which its lower rank broadcasts to all others.
using Packed = std::array<double, 8>;

Packed Pack(const PairRow& row) {
  return {row.latency_min_us,
          row.latency_median_us,
          row.latency_p99_us,
          row.up_GBps,
          row.down_GBps,
          row.both_GBps,
          static_cast<double>(row.wrong_up),
          static_cast<double>(row.wrong_down)};
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

// Encodes a path so that a rank can send it to rank 0. The format needs no version, because all ranks run the same
// program.
std::string EncodePath(const PeerPath& path) {
  return Json{{"transport", path.transport}, {"words", path.description}, {"link", LinkToJson(path.link)}}.dump(
      -1, ' ', false, Json::error_handler_t::replace);
}

Result<PeerPath> DecodePath(const std::string& text) {
  try {
    const Json json = ParseJson(text);
    return PeerPath{
        .transport = json.at("transport"), .description = json.at("words"), .link = LinkFromJson(json.at("link"))};
  } catch (const Json::exception& error) {
    return Fail(ErrorCode::kProtocol,
                "the path of another rank cannot be read, perhaps because that rank runs another version: {}",
                JsonReason(error));
  }
}

// Measures all pairs on one rail.
class Session {
 public:
  Session(Communicator& communicator, const Clock& clock, const MatrixOptions& options, std::uint32_t rail)
      : communicator_(communicator), clock_(clock), self_(communicator.rank()), rail_(rail) {
    matrix_.options = options;
    for (Rank rank = 0; rank < communicator.world_size(); ++rank)
      matrix_.ranks.push_back({communicator.peer(rank).host, communicator.peer(rank).ip});
  }

  // On rank 0 the result is complete. On the other ranks the paths are empty.
  Result<Matrix> Measure() {
    const int ranks = communicator_.world_size();
    PairBench bench(communicator_, clock_, matrix_.options.pair);
    ProgressLine progress(clock_, self_ == 0 ? static_cast<std::size_t>(ranks * (ranks - 1) / 2) : 0);
    for (Rank low = 0; low < ranks; ++low) {
      for (Rank high = low + 1; high < ranks; ++high) {
        if (self_ == 0)
          progress.Update(matrix_.pairs.size(), fmt::format("rank {} and rank {}{}", low, high,
                                                            rail_ > 0 ? fmt::format(" on rail {}", rail_) : ""));
        RONDO_ASSIGN(const PairRow row, bench.Measure(low, high));
        RONDO_TRY(Share(row));
      }
    }
    return std::move(matrix_);
  }

 private:
  // Gives the complete results of a pair to all ranks, and the paths to rank 0. Before this call, some of the results
  // are known only to the higher rank of the pair.
  Status Share(PairRow row) {
    if (self_ == row.high) RONDO_TRY(communicator_.Send(&row.wrong_up, 1, DataType::kUint64, row.low, kRow));
    if (self_ == row.low) RONDO_TRY(communicator_.Recv(&row.wrong_up, 1, DataType::kUint64, row.high, kRow));
    Packed packed = Pack(row);
    RONDO_TRY(
        communicator_.Broadcast(packed.data(), packed.data(), std::tuple_size_v<Packed>, DataType::kFloat64, row.low));
    matrix_.pairs.push_back(Unpack(row.low, row.high, packed));
    matrix_.pairs.back().rail = rail_;
    RONDO_ASSIGN(PeerPath low, AtRankZero(row.low, row.high));
    RONDO_ASSIGN(PeerPath high, AtRankZero(row.high, row.low));
    matrix_.paths.push_back({.transport = std::move(low.transport),
                             .from_low = std::move(low.description),
                             .from_high = std::move(high.description),
                             .low = std::move(low.link),
                             .high = std::move(high.link)});
    return {};
  }

  // Sends rank 0 a description of the path from `sender` to `peer`. Returns the path on rank 0, and an empty path on
  // the other ranks.
  Result<PeerPath> AtRankZero(Rank sender, Rank peer) {
    if (sender == self_ && self_ == 0) return communicator_.PathTo(peer);
    if (sender == self_) {
      const std::string text = EncodePath(communicator_.PathTo(peer));
      const std::uint64_t bytes = text.size();
      RONDO_TRY(communicator_.Send(&bytes, 1, DataType::kUint64, 0, kPath));
      RONDO_TRY(communicator_.Send(text.data(), bytes, DataType::kUint8, 0, kPath));
    }
    if (self_ != 0) return PeerPath{};
    std::uint64_t bytes = 0;
    RONDO_TRY(communicator_.Recv(&bytes, 1, DataType::kUint64, sender, kPath));
    std::string text(bytes, '\0');
    RONDO_TRY(communicator_.Recv(text.data(), bytes, DataType::kUint8, sender, kPath));
    return DecodePath(text);
  }

  Communicator& communicator_;
  const Clock& clock_;
  const Rank self_;
  const std::uint32_t rail_;
  Matrix matrix_;
};

// Measures each rail separately. If there are several rails, each is measured on a group that uses only this rail.
Result<Matrix> MeasureEachRail(Communicator& communicator, const Clock& clock, const MatrixOptions& options) {
  Matrix all;
  for (std::uint32_t rail = 0; rail < options.rails; ++rail) {
    std::unique_ptr<Communicator> group;
    if (options.rails > 1) {
      RONDO_ASSIGN(group, communicator.Split(0, communicator.rank(), {.rails = 1, .first_rail = rail}));
    }
    RONDO_ASSIGN(Matrix one, Session(group ? *group : communicator, clock, options, rail).Measure());
    if (group) RONDO_TRY(group->Close());
    if (rail == 0) {
      all = std::move(one);
      continue;
    }
    std::move(one.pairs.begin(), one.pairs.end(), std::back_inserter(all.pairs));
    std::move(one.paths.begin(), one.paths.end(), std::back_inserter(all.paths));
  }
  NameByPorts(all);
  return all;
}

Result<MatrixBaseline> OpenBaseline(const PerfOutputs& outputs, const MatrixOptions& options) {
  RONDO_ASSIGN(const std::string text, ReadBaseline(outputs.baseline));
  auto baseline = MatrixBaseline::Parse(text);
  const Status comparable = baseline ? baseline->CheckComparable(options) : tl::unexpected(baseline.error());
  if (!comparable)
    return Fail(ErrorCode::kInvalidArgument, "--baseline: {}: {}", outputs.baseline, comparable.error().message());
  return baseline;
}

// Compares with the baseline and prints the pairs that are slower than in the baseline. Returns whether there are any.
Result<bool> Regressed(const Matrix& matrix, const PerfOutputs& outputs, std::FILE* table) {
  RONDO_ASSIGN(const MatrixBaseline baseline, OpenBaseline(outputs, matrix.options));
  const MatrixBaseline::Report report = baseline.Compare(matrix, outputs.max_regression);
  if (report.compared == 0)
    return Fail(ErrorCode::kInvalidArgument, "--baseline: {} has none of these pairs over these transports",
                outputs.baseline);
  fmt::print(table, "# Baseline {}: {} of {} directions compared, {} worse by more than {:.4g}%\n", outputs.baseline,
             report.compared, 2 * matrix.pairs.size(), report.regressions.size(), 100 * outputs.max_regression);
  for (const MatrixBaseline::Regression& worse : report.regressions) {
    fmt::print(table, "#   {} to {}{}: {} {:.4g} {}, was {:.4g} ({:+.1f}%)\n", matrix.NameOf(worse.from),
               matrix.NameOf(worse.to), matrix.options.rails > 1 ? fmt::format(" on rail {}", worse.rail) : "",
               worse.what, worse.now, worse.unit, worse.was, 100 * (worse.now / worse.was - 1));
  }
  return !report.regressions.empty();
}

// On rank 0: prints and writes all results. Returns whether the results are good.
Result<bool> Tell(const Communicator& communicator, const Matrix& matrix, const PerfOutputs& outputs) {
  bool good = IsGood(matrix);
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

Result<bool> MeasureOrThrow(Communicator& communicator, const Clock& clock, const MatrixOptions& options,
                            const PerfOutputs& outputs) {
  RONDO_ASSIGN(const Matrix matrix, MeasureEachRail(communicator, clock, options));
  if (communicator.rank() != 0) return IsGood(matrix);
  auto good = Tell(communicator, matrix, outputs);
  // The other ranks have succeeded. If a file error occurred, the communicator is closed here, so that they get a
  // goodbye and not an abort.
  if (!good) static_cast<void>(communicator.Close());
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
