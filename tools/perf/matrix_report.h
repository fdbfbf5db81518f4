// The results for every pair of ranks, functions that find slow directions, and the tables for the user. All functions
// are pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "tools/perf/pair_bench.h"
#include "transport/transport.h"

namespace rondo {

struct MatrixOptions {
  PairOptions pair;
  bool gbits = false;              // true: tables show Gbit/s instead of GB/s
  std::optional<double> min_gbps;  // the bandwidth in Gbit/s that each direction of each pair must reach
  bool checksums = false;          // the communicator uses checksums
  std::uint32_t rails = 1;         // the number of rails; each is measured separately
};

// The path between two ranks. Each rank describes its own end of the path.
struct PairPaths {
  std::string transport;
  std::string from_low;  // the path as each of the two ranks sees it, as text for the user
  std::string from_high;
  LinkEnd low = {};
  LinkEnd high = {};

  // The line rate of the slower end. If only one end knows its rate, the result is that rate. It is 0 if neither end
  // knows its rate, or if there is no wire.
  double line_gbps() const;
};

struct MatrixRank {
  std::string host;
  std::string address;  // "": unknown; see NameByPorts

  std::string Name() const { return address.empty() ? host : host + " " + address; }
};

struct Matrix {
  std::vector<MatrixRank> ranks;
  std::vector<PairRow> pairs;    // every pair of ranks (low < high), once for each rail
  std::vector<PairPaths> paths;  // the path of each of `pairs`, in the same order
  MatrixOptions options;

  // "rank 1 (host 10.0.0.2)"
  std::string NameOf(Rank rank) const;
};

// Replaces the address of each rank by the addresses of the ports that its paths use, joined by "+" if there are
// several. For a port without an address, the device and the port number are used instead. If the paths of a rank use
// no port, its address stays.
void NameByPorts(Matrix& matrix);

// A transfer direction: from one rank to another.
struct Direction {
  Rank from = 0;
  Rank to = 1;
  double GBps = 0;
  bool slow = false;      // GBps is below kUsualShare times the median over all directions
  bool too_slow = false;  // the bandwidth is below min_gbps
  std::uint64_t wrong = 0;
  const PairRow* pair = nullptr;  // the pair, with its rail
  const PairPaths* paths = nullptr;

  // path() describes the path as the sender sees it. link() is the sender's end, peer_link() the receiver's.
  const std::string& path() const { return from < to ? paths->from_low : paths->from_high; }
  std::string PathWords() const;  // path() without the transport's name at the beginning
  const LinkEnd& link() const { return from < to ? paths->low : paths->high; }
  const LinkEnd& peer_link() const { return from < to ? paths->high : paths->low; }
  // The bandwidth as a percentage of the line rate; nullopt if the rate is not known.
  std::optional<double> PercentOfLine() const;
};

// All directions, sorted by rail, sender and receiver. The result is valid until the matrix is changed or destroyed.
std::vector<Direction> DirectionsOf(const Matrix& matrix);

// The directions on one rail. REQUIRES: `directions` is a result of DirectionsOf.
std::span<const Direction> OfRail(const std::vector<Direction>& directions, std::uint32_t rail);

// Whether every byte was correct and every direction reached min_gbps.
bool IsGood(const Matrix& matrix);

// A direction below this share of the median over all directions counts as slow.
inline constexpr double kUsualShare = 0.7;

// Four significant digits. Large numbers are shown with all their digits, without an exponent.
std::string FourDigits(double value);
// "mlx5_0:1", "eth0"; "" for a path through memory.
std::string PortName(const LinkEnd& link);
// "[3] RoCE v2 10.0.0.1 (eth0)"; "" if the end has no GID.
std::string GidText(const LinkEnd& link);

// The report as text: for each rail three tables with a row per sender. After the tables it lists slow directions by
// name, wrong bytes, and the path of each pair.
std::string MatrixText(const Matrix& matrix);

}  // namespace rondo
