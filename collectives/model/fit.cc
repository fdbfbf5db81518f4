#include "collectives/model/fit.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"

namespace rondo {
namespace {

// One measured time, and the values from which it is predicted.
struct Sample {
  ScheduleCost cost;
  bool oversubscribed;
  double bytes;
  double us;
};

// The mean square of the logarithms of predicted time / measured time.
double ErrorOf(const MachineCosts& costs, const std::vector<Sample>& samples) {
  double sum = 0;
  for (const Sample& sample : samples) {
    const double predicted = PredictUs(sample.cost, sample.oversubscribed, costs, sample.bytes);
    const double ratio = std::log(std::max(predicted, 1e-3) / sample.us);
    sum += ratio * ratio;
  }
  return sum / static_cast<double>(samples.size());
}

std::vector<Sample> SamplesOf(const std::vector<MeasuredWorld>& measured, int cores) {
  std::vector<Sample> samples;
  for (const MeasuredWorld& world : measured) {
    for (const MeasuredWorld::Times& times : world.times) {
      const AlgorithmEntry* const entry = FindAlgorithm(world.collective, times.algorithm);
      RONDO_CHECK(entry != nullptr);
      const ScheduleCost cost = CostOf(*entry, Topology::Even(world.world_size, world.hosts, cores));
      if (cost.rank.messages == 0) continue;  // a world of one rank measures nothing
      for (std::size_t i = 0; i < world.bytes.size(); ++i)
        samples.push_back({cost, world.oversubscribed, static_cast<double>(world.bytes[i]), times.us[i]});
    }
  }
  return samples;
}

// Whether the fit has moved a constant too far. Measurements hardly determine some constants, which must not drift
// without bound.
bool IsRunaway(double constant, double start) { return constant > 1000 * start || constant < start / 1000; }

}  // namespace

Fit FitCosts(const MachineCosts& start, const std::vector<MeasuredWorld>& measured, int cores) {
  const std::vector<Sample> samples = SamplesOf(measured, cores);
  RONDO_CHECK(!samples.empty());
  // If every measured world spans several hosts, the time per byte of a core cannot be distinguished from that of the
  // link. So all of it is attributed to the link.
  const bool spread = std::all_of(measured.begin(), measured.end(), [](const auto& world) { return world.hosts > 1; });
  // Only constants that some measurement depends on can be fitted.
  std::vector<double MachineCosts::*> fitted;
  for (double MachineCosts::*const constant :
       {&MachineCosts::hop_us, &MachineCosts::oversubscribed_latency_us, &MachineCosts::remote_hop_us,
        &MachineCosts::message_us, &MachineCosts::byte_ns, &MachineCosts::reduce_byte_ns,
        &MachineCosts::wire_gbit_per_s}) {
    if (spread && (constant == &MachineCosts::byte_ns || constant == &MachineCosts::reduce_byte_ns)) continue;
    MachineCosts more = start;
    more.*constant = 2 * more.*constant + 1;
    if (ErrorOf(more, samples) != ErrorOf(start, samples)) fitted.push_back(constant);
  }
  // The model contains a maximum, so it is not smooth and a gradient would be of little use. But it has few constants.
  // So the fit tries to raise and lower single constants and pairs of them, by smaller and smaller factors.
  Fit fit{start, 0};
  double error = ErrorOf(fit.costs, samples);
  for (double factor = 4; factor > 1.002;) {
    bool better = false;
    const auto attempt = [&](double MachineCosts::*one, double by, double MachineCosts::*other, double other_by) {
      MachineCosts tried = fit.costs;
      tried.*one *= by;
      tried.*other *= other_by;
      if (IsRunaway(tried.*one, start.*one) || IsRunaway(tried.*other, start.*other)) return;
      const double tried_error = ErrorOf(tried, samples);
      if (tried_error >= error) return;
      fit.costs = tried;
      error = tried_error;
      better = true;
    };
    for (double MachineCosts::*const one : fitted)
      for (double MachineCosts::*const other : fitted)
        for (const double by : {factor, 1 / factor})
          for (const double other_by : {1.0, factor, 1 / factor}) attempt(one, by, other, other_by);
    if (!better) factor = std::sqrt(factor);
  }
  fit.typical_error = std::exp(std::sqrt(error));
  return fit;
}

}  // namespace rondo
