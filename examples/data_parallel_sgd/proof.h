// Holds every step of the ranks against one process on the whole batch.
//
// The step   One process takes the same step from the state in which the ranks began it. How far apart rounding may
//            take the two is known for the loss and for each parameter (bounds.h), whatever the model. A step beyond
//            that is wrong. If no step is, the whole run is one process's run, up to rounding in each step.
// The run    One process also trains by itself from the start and is never corrected: how far all those roundings have
//            carried the two apart by now. It is told, not judged: training may magnify small differences (ReLU has a
//            kink, a learning rate may be high), on one process too.
#pragma once

#include <string>

#include "examples/data_parallel_sgd/bounds.h"
#include "examples/data_parallel_sgd/data_set.h"
#include "examples/data_parallel_sgd/lone_process.h"
#include "examples/data_parallel_sgd/model.h"
#include "examples/data_parallel_sgd/optimizer.h"

namespace sgd {

struct StepReport {
  double loss_difference = 0;  // from the same state
  double loss_bound = 0;
  Comparison parameters;  // from the same state

  double run_loss = 0;  // of the process that trains by itself
  double run_parameters_difference = 0;

  bool good() const { return loss_difference <= loss_bound && parameters.good(); }  // a NaN is not
};

class Proof {
 public:
  // `model` and `data` outlive the proof; `start` is what the ranks start with.
  Proof(const Mlp& model, const Spirals& data, const DescentOptions& descent, const Sharing& sharing,
        const TrainingState& start);

  // The ranks went from `before` to `after` by one step on the batch `rows`, on which their mean loss was `loss`. To be
  // called for every step, in order.
  StepReport Check(Rows rows, const TrainingState& before, const TrainingState& after, double loss);

  // What is wrong, in words that name the parameter. REQUIRES: !report.good().
  std::string Complaint(const StepReport& report) const;

 private:
  const Mlp& model_;
  const Spirals& data_;
  const DescentOptions descent_;
  const GradientBound gradient_bound_;
  const double loss_bound_;  // relative
  TrainingState alone_;      // of the process that trains by itself
};

}  // namespace sgd
