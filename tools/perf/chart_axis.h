// Positions and labels of the grid lines of a chart: round numbers, few enough that every label has room.
#pragma once

#include <string>
#include <vector>

namespace rondo {

// Ticks from 0 to the first one that is `most` or more. They are 1, 2 or 5 times a power of ten apart, and there are
// five to nine of them. REQUIRES: most > 0.
std::vector<double> LinearTicks(double most);

// Ticks of a logarithmic axis. The first is the largest tick that is not above `low`; the last is the smallest tick
// that is not below `high`. They are 1, 2 and 5 times powers of ten. If that gives more than eight ticks, only powers
// of ten are used, and if necessary only some of these. REQUIRES: 0 < low <= high.
std::vector<double> LogarithmicTicks(double low, double high);

// Powers of two from `low` to `high`, at equal distances, at most `most` of them. If there are fewer than two, the
// result is `low` and `high`. REQUIRES: 0 < low <= high.
std::vector<double> SizeTicks(double low, double high, int most);

// "0.05", "200", "1000000": the shortest exact form.
std::string TickLabel(double value);

}  // namespace rondo
