#include "collectives/model/fit.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"

namespace rondo {
namespace {

// One measured time, and what it should follow from.
struct Sample {
  ScheduleCost cost;
  bool crowded;
  double bytes;
  double us;
};

// The mean square of ratios' logarithms.
double ErrorOf(const MachineCosts& costs, const std::vector<Sample>& samples) {
  double sum = 0;
  for (const Sample& sample : samples) {
    const double predicted = PredictUs(sample.cost, sample.crowded, costs, sample.bytes);
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
      const ScheduleCost cost = CostOf(*entry, Place::Even(world.world_size, world.hosts, cores));
      if (cost.rank.messages == 0) continue;  // a world of one says nothing
      for (std::size_t i = 0; i < world.bytes.size(); ++i)
        samples.push_back({cost, world.crowded, static_cast<double>(world.bytes[i]), times.us[i]});
    }
  }
  return samples;
}

// What the measurements barely show must not go where they happen to push it.
bool IsRunaway(double constant, double start) { return constant > 1000 * start || constant < start / 1000; }

}  // namespace

Fit FitCosts(const MachineCosts& start, const std::vector<MeasuredWorld>& measured, int cores) {
  const std::vector<Sample> samples = SamplesOf(measured, cores);
  RONDO_CHECK(!samples.empty());
  // Where every world spans hosts, what a byte takes of a core and of the link cannot be told apart: it is the link's.
  const bool spread = std::all_of(measured.begin(), measured.end(), [](const auto& world) { return world.hosts > 1; });
  // Of what no measurement depends on nothing can be learnt.
  std::vector<double MachineCosts::*> fitted;
  for (double MachineCosts::*const constant :
       {&MachineCosts::hop_us, &MachineCosts::crowded_hop_us, &MachineCosts::remote_hop_us, &MachineCosts::message_us,
        &MachineCosts::byte_ns, &MachineCosts::reduce_byte_ns, &MachineCosts::wire_gbit_per_s}) {
    if (spread && (constant == &MachineCosts::byte_ns || constant == &MachineCosts::reduce_byte_ns)) continue;
    MachineCosts more = start;
    more.*constant = 2 * more.*constant + 1;
    if (ErrorOf(more, samples) != ErrorOf(start, samples)) fitted.push_back(constant);
  }
  // The model has a maximum in it and few constants, so they are found by going up and down with one after the other,
  // and with pairs of them, in ever smaller factors.
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
