// Compares every step of the ranks with the step of one process on the whole batch.
//
// - Each step: one process takes the same step from the state in which the ranks began it. bounds.h gives the largest
//   difference that rounding can cause, for the loss and for each parameter, for any model. A step with a larger
//   difference is wrong. If all steps are right, the whole run equals one process's run, up to rounding in each step.
// - The whole run: one process also trains alone from the start, and never takes over the ranks' state. Its
//   difference from the ranks shows the effect of all roundings together. The difference is reported but has no limit.
//   Training can magnify small differences, even in one process, because ReLU has a kink and a learning rate may be
//   high.
#pragma once

#include <string>

#include "examples/data_parallel_sgd/bounds.h"
#include "examples/data_parallel_sgd/data_set.h"
#include "examples/data_parallel_sgd/lone_process.h"
#include "examples/data_parallel_sgd/model.h"
#include "examples/data_parallel_sgd/optimizer.h"

namespace sgd {

struct StepReport {
  double loss_difference = 0;  // difference between the ranks' loss and the loss of one process in the same step
  double loss_bound = 0;
  // Compares the ranks' parameters after this step with those of one process that began in the same state.
  Comparison parameters;

  double run_loss = 0;  // the loss of the process that trains alone
  double run_parameters_difference = 0;

  bool good() const { return loss_difference <= loss_bound && parameters.good(); }  // false for NaN
};

class Proof {
 public:
  // `model` and `data` must outlive the proof; `start` is the ranks' initial state.
  Proof(const Mlp& model, const Spirals& data, const DescentOptions& descent, const Sharing& sharing,
        const TrainingState& start);

  // Checks one step of the ranks, from `before` to `after`, on the batch `rows`; `loss` is the ranks' mean loss on the
  // batch. Must be called for every step, in order.
  StepReport Check(Rows rows, const TrainingState& before, const TrainingState& after, double loss);

  // Describes the error and names the parameter. REQUIRES: !report.good().
  std::string Complaint(const StepReport& report) const;

 private:
  const Mlp& model_;
  const Spirals& data_;
  const DescentOptions descent_;
  const GradientBound gradient_bound_;
  const double loss_bound_;  // relative to the loss
  TrainingState alone_;      // the state of the process that trains alone
};

}  // namespace sgd
