// Compares every step of the ranks with one process on the whole batch.
//
// The step   One process takes the same step from the state in which the ranks began it. bounds.h gives the largest
// possible difference from rounding, for the loss and for each parameter, for any model. A step beyond that is wrong.
// If all steps are right, the whole run equals one process's run, up to rounding in each step.
// The run    One process also trains alone from the start, without correction. Its difference shows how far all those
// roundings have separated the two. The difference is reported but not judged: training may magnify small differences
// (ReLU has a kink, a learning rate may be high), also in one process.
#pragma once

#include <string>

#include "examples/data_parallel_sgd/bounds.h"
#include "examples/data_parallel_sgd/data_set.h"
#include "examples/data_parallel_sgd/lone_process.h"
#include "examples/data_parallel_sgd/model.h"
#include "examples/data_parallel_sgd/optimizer.h"

namespace sgd {

struct StepReport {
  double loss_difference = 0;  // after a step from the same state
  double loss_bound = 0;
  Comparison parameters;  // after a step from the same state

  double run_loss = 0;  // the loss of the process that trains alone
  double run_parameters_difference = 0;

  bool good() const { return loss_difference <= loss_bound && parameters.good(); }  // false for NaN
};

class Proof {
 public:
  // `model` and `data` must outlive the proof; `start` is the ranks' initial state.
  Proof(const Mlp& model, const Spirals& data, const DescentOptions& descent, const Sharing& sharing,
        const TrainingState& start);

  // Checks one step of the ranks, from `before` to `after`, on the batch `rows`; `loss` is their mean loss on it. Must
  // be called for every step, in order.
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
