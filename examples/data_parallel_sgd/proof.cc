#include "examples/data_parallel_sgd/proof.h"

#include <fmt/core.h>

#include <cmath>
#include <vector>

namespace sgd {
namespace {

// NaN if any difference is NaN.
double LargestDifference(const std::vector<float>& left, const std::vector<float>& right) {
  double largest = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    const double difference = std::abs(double{left[i]} - double{right[i]});
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
}

}  // namespace

Proof::Proof(const Mlp& model, const Spirals& data, const DescentOptions& descent, const Sharing& sharing,
             const TrainingState& start)
    : model_(model),
      data_(data),
      descent_(descent),
      gradient_bound_(BoundGradient(sharing)),
      loss_bound_(BoundLoss(sharing)),
      alone_(start) {}

StepReport Proof::Check(Rows rows, const TrainingState& before, const TrainingState& after, double loss) {
  const std::vector<Sample> batch = data_.Load(rows);
  StepReport report;

  const LoneGradient step = GradientAlone(model_, before.parameters, batch);
  TrainingState stepped = before;
  Descend(descent_, step.gradient, stepped);
  std::vector<double> bounds = step.magnitude;
  for (double& bound : bounds) bound = gradient_bound_.relative * bound + gradient_bound_.absolute;
  report.parameters = CompareStep(descent_, after, stepped, bounds);
  report.loss_difference = std::abs(loss - step.loss);
  report.loss_bound = loss_bound_ * step.loss;

  const LoneGradient run = GradientAlone(model_, alone_.parameters, batch);
  Descend(descent_, run.gradient, alone_);
  report.run_loss = run.loss;
  report.run_parameters_difference = LargestDifference(after.parameters, alone_.parameters);
  return report;
}

std::string Proof::Complaint(const StepReport& report) const {
  if (report.parameters.good()) {
    return fmt::format(
        "the loss differs by {:.3g} from that of one process on the same parameters; rounding explains at most {:.3g}",
        report.loss_difference, report.loss_bound);
  }
  std::size_t tensor = 0;
  while (report.parameters.worst >= model_.tensors()[tensor].end()) ++tensor;
  const std::string element = fmt::format("element {} of {}", report.parameters.worst - model_.tensors()[tensor].first,
                                          model_.tensors()[tensor].name);
  if (!std::isfinite(report.parameters.largest_share)) return element + " is not a finite number";
  return fmt::format(
      "{} differs from the step of one process by {:.3g} times the largest error that rounding can cause", element,
      report.parameters.largest_share);
}

}  // namespace sgd
