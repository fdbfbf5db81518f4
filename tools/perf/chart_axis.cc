#include "tools/perf/chart_axis.h"

#include <fmt/core.h>

#include <cmath>

namespace rondo {
namespace {

// The round numbers in order: 1, 2 or 5 times a power of ten. Index 0 is 1, index 1 is 2, index 3 is 10.
double Round(int index) {
  const int decade = index >= 0 ? index / 3 : (index - 2) / 3;
  constexpr double kFactors[] = {1, 2, 5};
  const double factor = kFactors[index - 3 * decade];
  return decade >= 0 ? factor * std::pow(10.0, decade) : factor / std::pow(10.0, -decade);
}

// The index of the largest round number that is not above the value.
int IndexBelow(double value) {
  // This first estimate may be too low by a few, but is never too high.
  int index = 3 * static_cast<int>(std::floor(std::log10(value))) - 3;
  while (Round(index + 1) <= value) ++index;
  return index;
}

int IndexAbove(double value) {
  const int below = IndexBelow(value);
  return Round(below) == value ? below : below + 1;
}

}  // namespace

std::vector<double> LinearTicks(double most) {
  const double step = Round(IndexAbove(most / 8));
  std::vector<double> ticks;
  for (int i = 0; i == 0 || ticks.back() < most; ++i) ticks.push_back(i * step);
  return ticks;
}

std::vector<double> LogarithmicTicks(double low, double high) {
  constexpr int kMax = 8;
  int first = IndexBelow(low), last = IndexAbove(high), stride = 1;
  if (first == last) ++last;
  if (last - first >= kMax) {  // powers of ten have indices that are multiples of three
    first -= ((first % 3) + 3) % 3;
    stride = 3 * ((last - first + 3 * kMax - 4) / (3 * kMax - 3));
    last = first + (last - first + stride - 1) / stride * stride;
  }
  std::vector<double> ticks;
  for (int index = first; index <= last; index += stride) ticks.push_back(Round(index));
  return ticks;
}

std::vector<double> SizeTicks(double low, double high, int most) {
  const int first = static_cast<int>(std::ceil(std::log2(low))), last = static_cast<int>(std::floor(std::log2(high)));
  if (first >= last) return low < high ? std::vector<double>{low, high} : std::vector<double>{low};
  const int stride = (last - first) / most + 1;
  std::vector<double> ticks;
  for (int exponent = first; exponent <= last; exponent += stride) ticks.push_back(std::exp2(exponent));
  return ticks;
}

std::string TickLabel(double value) { return fmt::format("{:.12g}", value); }

}  // namespace rondo
