// Positions and labels of the grid lines of a chart: round numbers, few enough that every label has room.
#pragma once

#include <string>
#include <vector>

namespace rondo {

// Ticks from 0 to the first one that is `most` or more. They are 1, 2 or 5 times a power of ten apart, and there are
// five to nine of them. REQUIRES: most > 0.
std::vector<double> LinearTicks(double most);

// Ticks of a logarithmic axis, from the last one that is `low` or less to the first one that is `high` or more. They
// are 1, 2 and 5 times powers of ten. If those are more than eight, only powers of ten, and if necessary only some of
// these. REQUIRES: 0 < low <= high.
std::vector<double> LogarithmicTicks(double low, double high);

// Powers of two from `low` to `high`, at most `most` of them at equal distances. If there are fewer than two, `low` and
// `high` themselves. REQUIRES: 0 < low <= high.
std::vector<double> SizeTicks(double low, double high, int most);

// "0.05", "200", "1000000": the shortest exact form.
std::string TickLabel(double value);

}  // namespace rondo
