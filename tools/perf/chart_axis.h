// Where the lines and labels of a chart's axes stand: at round numbers, and so that every label has room.
#pragma once

#include <string>
#include <vector>

namespace rondo {

// From 0 to the first that is `most` or more; 1, 2 or 5 times a power of ten apart, five to nine of them. REQUIRES:
// most > 0.
std::vector<double> LinearTicks(double most);

// From the last that is `low` or less to the first that is `high` or more, for a logarithmic axis: 1, 2 and 5 times
// powers of ten, or powers of ten alone where that is more than eight; of these some, where they are more. REQUIRES:
// 0 < low <= high.
std::vector<double> LogarithmicTicks(double low, double high);

// Powers of two from `low` to `high`, at most `most` of them and evenly apart; the two ends themselves where these are
// fewer than two. REQUIRES: 0 < low <= high.
std::vector<double> SizeTicks(double low, double high, int most);

// "0.05", "200", "1000000": as short as it is exact.
std::string TickLabel(double value);

}  // namespace rondo
