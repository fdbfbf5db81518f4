// What was measured between every pair of ranks, what is remarkable in it, and the tables that people read of it. Pure.
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
  bool gbits = false;              // tables in Gbit/s instead of GB/s
  std::optional<double> min_gbps;  // Gbit/s that each direction of each pair has to reach
  bool checksums = false;          // what every message is measured with
  std::uint32_t rails = 1;         // each is measured by itself
};

// How two ranks reach each other, each end by its own account.
struct PairPaths {
  std::string transport;
  std::string from_low;  // in words
  std::string from_high;
  LinkEnd low = {};
  LinkEnd high = {};

  // Of the slower end; one that does not know its line's speed has no say. 0: neither does, or there is no wire.
  double line_gbps() const;
};

struct MatrixRank {
  std::string host;
  std::string address;  // "": it has none that is known; see NameByPorts

  std::string Name() const { return address.empty() ? host : host + " " + address; }
};

struct Matrix {
  std::vector<MatrixRank> ranks;
  std::vector<PairRow> pairs;    // every low < high once on each rail
  std::vector<PairPaths> paths;  // of the pairs, in their order
  MatrixOptions options;

  // "rank 1 (host 10.0.0.2)"
  std::string NameOf(Rank rank) const;
};

// Gives each rank the addresses of the ports by which its paths really go, joined by "+" where these are several, and
// of a port that has none its device and number. A rank that uses none keeps the address that it has.
void NameByPorts(Matrix& matrix);

// An ordered pair of ranks.
struct Direction {
  Rank from = 0;
  Rank to = 1;
  double GBps = 0;
  bool slow = false;      // far below what is usual here
  bool too_slow = false;  // below min_gbps
  std::uint64_t wrong = 0;
  const PairRow* pair = nullptr;  // whose rail it is on
  const PairPaths* paths = nullptr;

  // By the sender's account, and the sender's and the receiver's ends.
  const std::string& path() const { return from < to ? paths->from_low : paths->from_high; }
  std::string PathWords() const;  // path(), without the transport's name in front
  const LinkEnd& link() const { return from < to ? paths->low : paths->high; }
  const LinkEnd& peer_link() const { return from < to ? paths->high : paths->low; }
  // Of what the line carries, in percent; nullopt where that is not known.
  std::optional<double> PercentOfLine() const;
};

// By rail, sender, receiver. Valid while the matrix lives unchanged.
std::vector<Direction> DirectionsOf(const Matrix& matrix);

// Those of one rail. REQUIRES: `directions` are DirectionsOf's.
std::span<const Direction> OfRail(const std::vector<Direction>& directions, std::uint32_t rail);

// Whether every byte was right and every direction as fast as min_gbps.
bool IsGood(const Matrix& matrix);

// Below this share of the median over all directions one is slow.
inline constexpr double kUsualShare = 0.7;

// Four significant digits, and never an exponent where there are more before the point.
std::string FourDigits(double value);
// "mlx5_0:1", "eth0"; "" of a path through memory.
std::string PortName(const LinkEnd& link);
// "[3] RoCE v2 10.0.0.1 (eth0)"; "" where there is none.
std::string GidText(const LinkEnd& link);

// Three tables with a row per sender, for each rail, what is slow by name, wrong bytes, and the path of each pair.
std::string MatrixText(const Matrix& matrix);

}  // namespace rondo
