// Tests what `rondo perf send_recv --matrix` reports about the measured pairs: tables, JSON, CSV, page, baseline.
#include "tools/perf/matrix_report.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/perf/matrix_html.h"
#include "tools/perf/matrix_json.h"

namespace rondo {
namespace matrix_report_test {

const HostFacts kHost{.name = "a", .cpu = "some", .kernel = "Linux", .cores = 2};

PairRow Pair(Rank low, Rank high, double up_GBps, double down_GBps) {
  return {.low = low,
          .high = high,
          .latency_median_us = 10.0 * high,
          .up_GBps = up_GBps,
          .down_GBps = down_GBps,
          .both_GBps = up_GBps + down_GBps};
}

Matrix Of(std::vector<PairRow> pairs, MatrixOptions options = {}) {
  Matrix matrix;
  Rank last = 0;
  for (const PairRow& pair : pairs) last = std::max(last, pair.high);
  for (Rank rank = 0; rank <= last; ++rank) matrix.ranks.push_back({"h" + std::to_string(rank), "10.0.0.1"});
  matrix.paths.assign(pairs.size(), {.transport = "tcp", .from_low = "up \"eth0\", <1>", .from_high = "down"});
  matrix.pairs = std::move(pairs);
  matrix.options = options;
  return matrix;
}

// The line of rank `name` in the table that begins with `title`.
std::string RowOf(const std::string& text, const std::string& title, const std::string& name) {
  const std::size_t table = text.find(title);
  const std::size_t row = text.find(name, table);
  return table == std::string::npos || row == std::string::npos ? "" : text.substr(row, text.find('\n', row) - row);
}

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("each direction stands in the row of its sender, and a slow one is marked there alone and named") {
  const std::string text = MatrixText(Of({Pair(0, 1, 10, 11), Pair(0, 2, 10, 2), Pair(1, 2, 12, 10)}));
  CHECK(RowOf(text, "Bandwidth one way", "h0") == "h0 10.0.0.1        -        10        10 ");
  CHECK(RowOf(text, "Bandwidth one way", "h1") == "h1 10.0.0.1       11         -        12 ");
  CHECK(RowOf(text, "Bandwidth one way", "h2") == "h2 10.0.0.1        2!       10         - ");
  CHECK(Has(text, "# Slow: rank 2 (h2 10.0.0.1) to rank 0 (h0 10.0.0.1): 2 GB/s\n"));
  CHECK(!Has(text, "Too slow"));
}

TEST_CASE("what is true of a pair both ways stands on both sides of the diagonal") {
  const std::string text = MatrixText(Of({Pair(0, 1, 1, 2), Pair(0, 2, 3, 4), Pair(1, 2, 5, 6)}));
  CHECK(RowOf(text, "Bandwidth both ways", "h1") == "h1 10.0.0.1        3         -        11 ");
  CHECK(RowOf(text, "Latency one way", "h2") == "h2 10.0.0.1       20        20         - ");
}

TEST_CASE("large figures have no exponents") {
  CHECK(FourDigits(0.012345) == "0.01235");
  CHECK(FourDigits(9999.4) == "9999");
  CHECK(FourDigits(14553.2) == "14553");
  Matrix matrix = Of({Pair(0, 1, 10, 10)});
  matrix.pairs[0].latency_median_us = 123456;
  CHECK(RowOf(MatrixText(matrix), "Latency one way", "h0") == "h0 10.0.0.1        -    123456 ");
}

TEST_CASE("min_gbps is in Gbit/s: one direction below it makes the matrix a bad one") {
  MatrixOptions options;
  options.min_gbps = 79;
  CHECK(IsGood(Of({Pair(0, 1, 10, 10)}, options)));
  options.min_gbps = 81;
  const Matrix matrix = Of({Pair(0, 1, 10.2, 10)}, options);
  CHECK(!IsGood(matrix));
  CHECK(RowOf(MatrixText(matrix), "Bandwidth one way", "h0") == "h0 10.0.0.1        -      10.2 ");
  CHECK(RowOf(MatrixText(matrix), "Bandwidth one way", "h1") == "h1 10.0.0.1       10X        - ");
}

TEST_CASE("a wrong byte makes the matrix a bad one") {
  Matrix matrix = Of({Pair(0, 1, 10, 10)});
  CHECK(IsGood(matrix));
  matrix.pairs[0].wrong_down = 1;
  CHECK(!IsGood(matrix));
  CHECK(Has(MatrixText(matrix), "1 WRONG"));
}

TEST_CASE("bandwidths are printed in Gbit/s on request") {
  MatrixOptions options;
  options.gbits = true;
  const std::string text = MatrixText(Of({Pair(0, 1, 10, 5)}, options));
  CHECK(RowOf(text, "Bandwidth one way", "h0") == "h0 10.0.0.1        -        80 ");
  CHECK(Has(text, "Gbit/s; row to column"));
}

TEST_CASE("every pair has a row for its path, with its share of the line where that is known") {
  Matrix matrix = Of({Pair(0, 1, 10, 5)});
  CHECK(Has(MatrixText(matrix), "# Path 0 to 1: tcp over up \"eth0\", <1>\n"));
  matrix.paths[0].low.line_gbps = 100;
  CHECK(Has(MatrixText(matrix), "; line 100 Gbit/s, 80% there and 40% back\n"));
}

TEST_CASE("JSON has an entry per ordered pair, and null for what is not known") {
  Matrix matrix = Of({Pair(0, 1, 10, 5), Pair(0, 2, 10, 10), Pair(1, 2, 10, 10)});
  matrix.paths[1].high.line_gbps = 100;
  const auto json = nlohmann::json::parse(MatrixToJson(matrix, kHost));
  REQUIRE(json["pairs"].size() == 6);
  CHECK(json["ranks"][2]["host"] == "h2");
  CHECK(json["ranks"][2]["address"] == "10.0.0.1");
  const auto& back = json["pairs"][2];
  CHECK(back["from"] == 1);
  CHECK(back["to"] == 0);
  CHECK(back["bandwidth_GBps"] == 5);
  CHECK(back["slow"] == true);
  CHECK(back["path"] == "down");
  CHECK(back["line_Gbps"].is_null());
  CHECK(json["pairs"][1]["percent_of_line"] == 80);
}

LinkEnd RdmaEnd(const std::string& address, int gid_index) {
  return {.device = "mlx5_1",
          .port = 2,
          .address = address,
          .gid = "RoCE v2 " + address + " (eth1)",
          .gid_index = gid_index,
          .mtu_bytes = 4096,
          .line_gbps = 200};
}

TEST_CASE("each rank is named by the addresses of the ports that its paths use") {
  Matrix matrix = Of({Pair(0, 1, 10, 10), Pair(0, 2, 10, 10), Pair(1, 2, 10, 10)});
  matrix.paths[0].low = RdmaEnd("10.1.0.1", 3);
  matrix.paths[0].high = RdmaEnd("10.1.0.2", 3);
  matrix.paths[1].low = RdmaEnd("10.2.0.1", 4);  // uses another port
  matrix.paths[1].high = {.device = "mlx5_0", .port = 1, .gid = "InfiniBand fe80::1"};
  matrix.paths[2].low = RdmaEnd("10.1.0.2", 3);
  NameByPorts(matrix);
  CHECK(matrix.NameOf(0) == "rank 0 (h0 10.1.0.1+10.2.0.1)");
  CHECK(matrix.NameOf(1) == "rank 1 (h1 10.1.0.2)");
  CHECK(matrix.NameOf(2) == "rank 2 (h2 mlx5_0:1)");

  Matrix through_memory = Of({Pair(0, 1, 10, 10)});
  through_memory.paths[0].low.address = "127.0.0.1";  // an address that no RDMA port has
  NameByPorts(through_memory);
  CHECK(through_memory.NameOf(0) == "rank 0 (h0 10.0.0.1)");
}

TEST_CASE("both ends of a path are described by device, port, GID and MTU, in every form") {
  Matrix matrix = Of({Pair(0, 1, 10, 5)});
  matrix.paths[0].transport = "ib";
  matrix.paths[0].from_low = "ib mlx5_1:2 [3] RoCE v2 10.1.0.1 (eth1), MTU 4096";
  matrix.paths[0].low = RdmaEnd("10.1.0.1", 3);
  matrix.paths[0].high = RdmaEnd("10.1.0.2", 5);
  matrix.paths[0].high.line_gbps = 100;
  CHECK(Has(
      MatrixText(matrix),
      "# Path 0 to 1: ib over mlx5_1:2 [3] RoCE v2 10.1.0.1 (eth1), MTU 4096; at the other end mlx5_1:2 [5] RoCE v2 "
      "10.1.0.2 (eth1), MTU 4096; line 100 Gbit/s, 80% there and 40% back\n"));

  const auto back = nlohmann::ordered_json::parse(MatrixToJson(matrix, kHost))["pairs"][1];
  CHECK(back["from_link"]["gid_index"] == 5);
  CHECK(back["line_Gbps"] == 100);
  const LinkEnd there = LinkFromJson(back["to_link"]);
  CHECK(there.device == "mlx5_1");
  CHECK(there.port == 2);
  CHECK(there.address == "10.1.0.1");
  CHECK(there.gid == "RoCE v2 10.1.0.1 (eth1)");
  CHECK(there.gid_index == 3);
  CHECK(there.mtu_bytes == 4096);
  CHECK(there.line_gbps == 200);
  CHECK(LinkToJson(LinkFromJson(LinkToJson(LinkEnd{}))) == LinkToJson(LinkEnd{}));

  CHECK(Has(MatrixToCsv(matrix), ",mlx5_1,2,3,RoCE v2 10.1.0.1 (eth1),4096,mlx5_1,2,5,RoCE v2 10.1.0.2 (eth1),4096,"));
  const std::string page = MatrixToHtml(matrix, kHost);
  CHECK(Has(page, "<td class=\"name\">mlx5_1:2<td>4096<td class=\"name\">[5] RoCE v2 10.1.0.2 (eth1)<td"));
  CHECK(!Has(MatrixToHtml(Of({Pair(0, 1, 10, 5)}), kHost), "GID"));
}

TEST_CASE("each rail has a table of its own, and what is slow, each path and a baseline speak of it by number") {
  MatrixOptions options;
  options.rails = 2;
  std::vector<PairRow> pairs{Pair(0, 1, 10, 11), Pair(0, 1, 12, 2)};
  pairs[1].rail = 1;
  const Matrix matrix = Of(pairs, options);
  const std::string text = MatrixText(matrix);
  const std::size_t second = text.find("# on rail 1\n");
  REQUIRE(second != std::string::npos);
  CHECK(RowOf(text, "# on rail 0", "h1") == "h1 10.0.0.1       11         - ");
  CHECK(RowOf(text.substr(second), "# on rail 1", "h1") == "h1 10.0.0.1        2!        - ");
  CHECK(Has(text, "# Slow: rank 1 (h1 10.0.0.1) to rank 0 (h0 10.0.0.1) on rail 1: 2 GB/s\n"));
  CHECK(Has(text, "# Path 0 to 1 on rail 0: "));
  CHECK(!Has(MatrixText(Of({Pair(0, 1, 10, 11)})), "rail"));
  const std::string page = MatrixToHtml(matrix, kHost);
  CHECK(Has(page, "<th>rail 1</th>"));
  CHECK(Has(page, "(h0 10.0.0.1) on rail 1: <b>2 GB/s</b>"));
  CHECK(!Has(MatrixToHtml(Of({Pair(0, 1, 10, 5)}), kHost), "rail"));

  auto before = matrix;
  before.pairs[1].up_GBps = 24;
  const auto baseline = MatrixBaseline::Parse(MatrixToJson(before, kHost));
  REQUIRE(baseline);
  const MatrixBaseline::Report report = baseline->Compare(matrix, 0.1);
  CHECK(report.compared == 4);
  REQUIRE(report.regressions.size() == 1);
  CHECK(report.regressions.front().rail == 1);
}

TEST_CASE("CSV has as many fields in each line as in its head, whatever the words of a path") {
  const std::string csv = MatrixToCsv(Of({Pair(0, 1, 10, 5)}));
  const std::size_t first = csv.find('\n') + 1;
  const std::string line = csv.substr(first, csv.find('\n', first) - first);
  CHECK(line.rfind("0,1,0,\"h0\",10.0.0.1,\"h1\",10.0.0.1,tcp,10,15,", 0) == 0);
  CHECK(Has(line, ",\"up \"\"eth0\"\", <1>\""));
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 3);
}

TEST_CASE("the page marks what is slow, escapes what others have named, and loads nothing") {
  const std::string page = MatrixToHtml(Of({Pair(0, 1, 10, 11), Pair(0, 2, 10, 2), Pair(1, 2, 12, 10)}), kHost);
  CHECK(Has(page, "<li>rank 2 (h2 10.0.0.1) to rank 0 (h0 10.0.0.1): <b>2 GB/s</b>"));
  CHECK(Has(page, "<td class=\"slow\""));
  CHECK(Has(page, "up &quot;eth0&quot;, &lt;1&gt;"));
  for (const char* foreign : {"http", "<script", "<link", "url("}) CHECK(!Has(page, foreign));
}

TEST_CASE("a baseline is compared by direction: bandwidth each way, and latency and both ways once") {
  const auto baseline =
      MatrixBaseline::Parse(MatrixToJson(Of({Pair(0, 1, 10, 10), Pair(0, 2, 10, 10), Pair(1, 2, 10, 10)}), kHost));
  REQUIRE(baseline);
  const auto same = baseline->Compare(Of({Pair(0, 1, 9.2, 9.2), Pair(0, 2, 10, 10), Pair(1, 2, 99, 10)}), 0.1);
  CHECK(same.compared == 6);
  CHECK(same.regressions.empty());

  Matrix slower = Of({Pair(0, 1, 10, 8), Pair(0, 2, 10, 10), Pair(1, 2, 10, 10)});
  slower.pairs[0].both_GBps = 20;
  slower.pairs[2].latency_median_us = 23;
  const auto worse = baseline->Compare(slower, 0.1);
  REQUIRE(worse.regressions.size() == 2);
  CHECK(worse.regressions[0].from == 1);
  CHECK(worse.regressions[0].to == 0);
  CHECK(worse.regressions[0].what == std::string("bandwidth"));
  CHECK(worse.regressions[0].was == 10);
  CHECK(worse.regressions[1].what == std::string("latency"));
  CHECK(worse.regressions[1].from == 1);

  slower.paths[0].transport = "ib";
  CHECK(baseline->Compare(slower, 0.1).compared == 4);
}

TEST_CASE("a baseline of other messages, or that is no matrix, is refused") {
  MatrixOptions larger;
  larger.pair.bandwidth_bytes *= 2;
  const auto baseline = MatrixBaseline::Parse(MatrixToJson(Of({Pair(0, 1, 10, 10)}, larger), kHost));
  REQUIRE(baseline);
  CHECK(baseline->CheckComparable(larger).has_value());
  CHECK(Has(baseline->CheckComparable({}).error().message(), "2 MiB"));
  larger.checksums = true;
  CHECK(Has(baseline->CheckComparable(larger).error().message(), "8 at once, with checksums"));
  for (const char* text : {"", "{}", "[1]", R"({"rows": []})", R"({"matrix": {}, "pairs": []})",
                           R"({"matrix": {"latency_bytes": 8, "bandwidth_bytes": 1e99, "in_flight": 8}, "pairs": []})",
                           R"({"matrix": {"latency_bytes": 8, "bandwidth_bytes": 1, "in_flight": 8}, "pairs": [3]})"}) {
    const auto refused = MatrixBaseline::Parse(text);
    REQUIRE(!refused);
    CHECK(refused.error().code() == ErrorCode::kInvalidArgument);
  }
}

}  // namespace matrix_report_test
}  // namespace rondo
