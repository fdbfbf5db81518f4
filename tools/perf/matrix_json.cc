#include "tools/perf/matrix_json.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/version.h"
#include "tools/common/sizes.h"

namespace rondo {
namespace {

Json KnownOrNull(double value) { return value > 0 ? Json(Rounded(value)) : Json(nullptr); }
Json KnownOrNull(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

template <typename Number>
Number NumberUnder(const Json& object, const char* key) {
  const Json& value = object.at(key);
  return value.is_null() ? Number() : value.get<Number>();
}

Json DirectionToJson(const Direction& direction, bool checked) {
  const PairRow& pair = *direction.pair;
  return Json{{"from", direction.from},
              {"to", direction.to},
              {"rail", pair.rail},
              {"transport", direction.paths->transport},
              {"bandwidth_GBps", Rounded(direction.GBps)},
              {"both_GBps", Rounded(pair.both_GBps)},
              {"latency_us",
               {{"min", Rounded(pair.latency_min_us)},
                {"median", Rounded(pair.latency_median_us)},
                {"p99", Rounded(pair.latency_p99_us)}}},
              {"line_Gbps", KnownOrNull(direction.paths->line_gbps())},
              {"percent_of_line", KnownOrNull(direction.PercentOfLine().value_or(0))},
              {"slow", direction.slow},
              {"too_slow", direction.too_slow},
              {"wrong", checked ? Json(direction.wrong) : Json(nullptr)},
              {"from_link", LinkToJson(direction.link())},
              {"to_link", LinkToJson(direction.peer_link())},
              {"path", direction.path()}};
}

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string KnownOrEmpty(double value) { return value > 0 ? fmt::format("{:.6g}", value) : ""; }

std::string EndFields(const LinkEnd& link) {
  const auto number = [](bool known, int value) { return known ? fmt::format("{}", value) : ""; };
  return fmt::format("{},{},{},{},{}", link.device, number(link.port > 0, link.port),
                     number(!link.gid.empty(), link.gid_index), link.gid, number(link.mtu_bytes > 0, link.mtu_bytes));
}

Rank RankUnder(const Json& object, const char* key) {
  return static_cast<Rank>(std::clamp<std::int64_t>(WholeNumberAt(object, key), -1, INT32_MAX));
}

// Returns `value` as a number. Throws if it is not a positive number, because then nothing was measured that can be
// compared.
double Positive(const Json& value, const char* name) {
  if (value.is_number() && value.get<double>() > 0) return value.get<double>();
  ThrowUnfit(fmt::format("{} must be a positive number", name));
}

}  // namespace

Json LinkToJson(const LinkEnd& link) {
  return Json{{"device", KnownOrNull(link.device)},
              {"port", link.port > 0 ? Json(link.port) : Json(nullptr)},
              {"address", KnownOrNull(link.address)},
              {"gid_index", link.gid.empty() ? Json(nullptr) : Json(link.gid_index)},
              {"gid", KnownOrNull(link.gid)},
              {"mtu_bytes", link.mtu_bytes > 0 ? Json(link.mtu_bytes) : Json(nullptr)},
              {"line_Gbps", KnownOrNull(link.line_gbps)}};
}

LinkEnd LinkFromJson(const Json& json) {
  return {.device = TextOrNull(json, "device"),
          .port = NumberUnder<int>(json, "port"),
          .address = TextOrNull(json, "address"),
          .gid = TextOrNull(json, "gid"),
          .gid_index = NumberUnder<int>(json, "gid_index"),
          .mtu_bytes = NumberUnder<int>(json, "mtu_bytes"),
          .line_gbps = NumberUnder<double>(json, "line_Gbps")};
}

std::string MatrixToJson(const Matrix& matrix, const HostFacts& host) {
  const MatrixOptions& options = matrix.options;
  Json ranks = Json::array(), pairs = Json::array();
  for (std::size_t rank = 0; rank < matrix.ranks.size(); ++rank)
    ranks.push_back({{"rank", rank}, {"host", matrix.ranks[rank].host}, {"address", matrix.ranks[rank].address}});
  for (const Direction& direction : DirectionsOf(matrix))
    pairs.push_back(DirectionToJson(direction, options.pair.check));
  const Json all{
      {"rondo", kRondoVersion},
      {"host", HostToJson(host)},
      {"matrix",
       {{"latency_bytes", options.pair.latency_bytes},
        {"bandwidth_bytes", options.pair.bandwidth_bytes},
        {"in_flight", options.pair.in_flight},
        {"iters", options.pair.iterations ? Json(*options.pair.iterations) : Json(nullptr)},
        {"time_ms", options.pair.iterations
                        ? Json(nullptr)
                        : Json(Rounded(std::chrono::duration<double, std::milli>(options.pair.time).count()))},
        {"checksums", options.checksums},
        {"rails", options.rails},
        {"min_Gbps", KnownOrNull(options.min_gbps.value_or(0))}}},
      {"ranks", std::move(ranks)},
      {"pairs", std::move(pairs)}};
  return all.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string MatrixToCsv(const Matrix& matrix) {
  std::string text =
      "from,to,rail,from_host,from_address,to_host,to_address,transport,bandwidth_GBps,both_GBps,latency_us_min,"
      "latency_us_median,latency_us_p99,line_Gbps,percent_of_line,slow,too_slow,wrong,from_device,from_port,"
      "from_gid_index,from_gid,from_mtu_bytes,to_device,to_port,to_gid_index,to_gid,to_mtu_bytes,path\n";
  for (const Direction& direction : DirectionsOf(matrix)) {
    const PairRow& pair = *direction.pair;
    const MatrixRank& from = matrix.ranks[static_cast<std::size_t>(direction.from)];
    const MatrixRank& to = matrix.ranks[static_cast<std::size_t>(direction.to)];
    text += fmt::format("{},{},{},{},{},{},{},{},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{},{},{},{},{},{},{},{}\n",
                        direction.from, direction.to, pair.rail, Quoted(from.host), from.address, Quoted(to.host),
                        to.address, direction.paths->transport, direction.GBps, pair.both_GBps, pair.latency_min_us,
                        pair.latency_median_us, pair.latency_p99_us, KnownOrEmpty(direction.paths->line_gbps()),
                        KnownOrEmpty(direction.PercentOfLine().value_or(0)), direction.slow, direction.too_slow,
                        matrix.options.pair.check ? fmt::format("{}", direction.wrong) : "",
                        EndFields(direction.link()), EndFields(direction.peer_link()), Quoted(direction.path()));
  }
  return text;
}

Result<MatrixBaseline> MatrixBaseline::Parse(std::string_view json) {
  MatrixBaseline baseline;
  try {
    const Json parsed = ParseJson(json);
    const Json& measured = parsed.at("matrix");
    baseline.latency_bytes_ = static_cast<std::uint64_t>(WholeNumberAt(measured, "latency_bytes"));
    baseline.bandwidth_bytes_ = static_cast<std::uint64_t>(WholeNumberAt(measured, "bandwidth_bytes"));
    baseline.in_flight_ = WholeNumberAt(measured, "in_flight");
    baseline.checksums_ = measured.value("checksums", false);
    for (const Json& pair : parsed.at("pairs")) {
      baseline.entries_.push_back({.from = RankUnder(pair, "from"),
                                   .to = RankUnder(pair, "to"),
                                   .rail = pair.contains("rail") ? WholeNumberAt(pair, "rail") : 0,
                                   .transport = pair.at("transport"),
                                   .GBps = Positive(pair.at("bandwidth_GBps"), "bandwidth_GBps"),
                                   .both_GBps = Positive(pair.at("both_GBps"), "both_GBps"),
                                   .latency_us = Positive(pair.at("latency_us").at("median"), "latency_us.median")});
    }
  } catch (const Json::exception& error) {
    return Fail(ErrorCode::kInvalidArgument, "this is not what `rondo perf send_recv --matrix --json` writes: {}",
                JsonReason(error));
  }
  return baseline;
}

Status MatrixBaseline::CheckComparable(const MatrixOptions& options) const {
  const PairOptions& pair = options.pair;
  if (latency_bytes_ == pair.latency_bytes && bandwidth_bytes_ == pair.bandwidth_bytes &&
      in_flight_ == pair.in_flight && checksums_ == options.checksums)
    return {};
  const auto words = [](std::uint64_t latency_bytes, std::uint64_t bandwidth_bytes, std::int64_t in_flight,
                        bool checksums) {
    return fmt::format("{} and {}, {} at once{}", FormatSize(latency_bytes), FormatSize(bandwidth_bytes), in_flight,
                       checksums ? ", with checksums" : "");
  };
  return Fail(ErrorCode::kInvalidArgument,
              "the baseline was measured with messages of {}, but this run uses messages of {}",
              words(latency_bytes_, bandwidth_bytes_, in_flight_, checksums_),
              words(pair.latency_bytes, pair.bandwidth_bytes, pair.in_flight, options.checksums));
}

MatrixBaseline::Report MatrixBaseline::Compare(const Matrix& matrix, double max_regression) const {
  Report report;
  for (const Direction& now : DirectionsOf(matrix)) {
    const auto was = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
      return entry.from == now.from && entry.to == now.to && entry.rail == now.pair->rail &&
             entry.transport == now.paths->transport;
    });
    if (was == entries_.end()) continue;
    ++report.compared;
    const auto lower = [&](const char* what, double value, double before) {
      if (value * (1 + max_regression) < before)
        report.regressions.push_back({now.from, now.to, now.pair->rail, what, "GB/s", value, before});
    };
    lower("bandwidth", now.GBps, was->GBps);
    if (now.from > now.to) continue;
    lower("both ways", now.pair->both_GBps, was->both_GBps);
    const double latency_us = now.pair->latency_median_us;
    if (latency_us > was->latency_us * (1 + max_regression))
      report.regressions.push_back({now.from, now.to, now.pair->rail, "latency", "us", latency_us, was->latency_us});
  }
  return report;
}

}  // namespace rondo
