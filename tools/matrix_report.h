// What was measured between every pair of ranks, what is remarkable in it, and the tables that people read of it. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "tools/pair_bench.h"

namespace rondo {

struct MatrixOptions {
  PairOptions pair;
  bool gbits = false;              // tables in Gbit/s instead of GB/s
  std::optional<double> min_gbps;  // Gbit/s that each direction of each pair has to reach
};

// How two ranks reach each other, each end by its own account.
struct PairPaths {
  std::string transport;
  std::string from_low;
  std::string from_high;
  double line_gbps = 0;  // of the slower end; 0: no end knows, or there is no wire
};

struct MatrixRank {
  std::string host;
  std::string ip;  // "": it has none that is known

  std::string Name() const { return ip.empty() ? host : host + " " + ip; }
};

struct Matrix {
  std::vector<MatrixRank> ranks;
  std::vector<PairRow> pairs;    // every low < high once
  std::vector<PairPaths> paths;  // of the pairs, in their order
  MatrixOptions options;

  // "rank 1 (host 10.0.0.2)"
  std::string NameOf(Rank rank) const;
};

// An ordered pair of ranks.
struct Direction {
  Rank from = 0;
  Rank to = 1;
  double GBps = 0;
  bool slow = false;      // far below what is usual here
  bool too_slow = false;  // below min_gbps
  std::uint64_t wrong = 0;
  const PairRow* pair = nullptr;
  const PairPaths* paths = nullptr;

  const std::string& path() const { return from < to ? paths->from_low : paths->from_high; }
  // Of what the line carries, in percent; nullopt where that is not known.
  std::optional<double> PercentOfLine() const;
};

// By sender, then receiver. Valid while the matrix lives unchanged.
std::vector<Direction> DirectionsOf(const Matrix& matrix);

// Whether every byte was right and every direction as fast as min_gbps.
bool IsGood(const Matrix& matrix);

// Below this share of the median over all directions one is slow.
inline constexpr double kUsualShare = 0.7;

// Three tables with a row per sender, what is slow by name, wrong bytes, and the path of each pair.
std::string MatrixText(const Matrix& matrix);

}  // namespace rondo
