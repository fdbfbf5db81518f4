// A model that is too large for one rank is cut into stages, and each rank holds one layer. A batch is cut into
// micro-batches, so that all stages work at the same time: activations are sent forward, gradients are sent back
// (GPipe: Huang et al., "GPipe: Efficient training of giant neural networks using pipeline parallelism", NeurIPS 2019).
//
//   rondo run -N 2 -- bazel-bin/examples/pipeline
//
// Every receive is posted before the computation that its message overlaps. All values are small integers, so the final
// stage can compare the result, element by element, with the result of the same layers in one process.
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "collectives/connect.h"

namespace {

using Values = std::vector<float>;
constexpr std::size_t kWidth = 4096;  // elements of an activation: a micro-batch has 16 KiB
constexpr int kMicroBatches = 16;
constexpr rondo::DataType kType = rondo::DataType::kFloat32;

// A layer with one weight: its output is its input, shifted by one element and multiplied by the stage's weight.
float WeightOf(int stage) { return static_cast<float>(1 + stage % 2); }
Values Forward(int stage, const Values& in) {
  Values out(kWidth);
  for (std::size_t i = 0; i < kWidth; ++i) out[(i + 1) % kWidth] = WeightOf(stage) * in[i];
  return out;
}
// Computes the gradient of the input from the gradient of the output, and returns it. Adds this micro-batch's
// contribution to the gradient of the weight.
Values Backward(int stage, const Values& in, const Values& out_gradient, float& weight_gradient) {
  Values in_gradient(kWidth);
  for (std::size_t i = 0; i < kWidth; ++i) {
    in_gradient[i] = WeightOf(stage) * out_gradient[(i + 1) % kWidth];
    weight_gradient += in[i] * out_gradient[(i + 1) % kWidth];
  }
  return in_gradient;
}

Values InputOf(int micro_batch) {
  Values values(kWidth);
  for (std::size_t i = 0; i < kWidth; ++i)
    values[i] = static_cast<float>((i + static_cast<std::size_t>(micro_batch)) % 3);
  return values;
}
// The gradient of the loss at the output of the last stage. The loss is the sum of all elements.
Values LossGradient() { return Values(kWidth, 1.0f); }

int Complain(int rank, const std::string& what) {
  std::fprintf(stderr, "rank %d: %s\n", rank, what.c_str());
  return 1;
}

// The gradient of the weight of `stage`, computed by one process alone.
float LoneWeightGradient(int stage, int stages) {
  float gradient = 0;
  for (int m = 0; m < kMicroBatches; ++m) {
    std::vector<Values> in{InputOf(m)};
    for (int s = 0; s + 1 < stages; ++s) in.push_back(Forward(s, in.back()));
    Values back = LossGradient();
    for (int s = stages - 1; s >= stage; --s) {
      float here = 0;
      back = Backward(s, in[static_cast<std::size_t>(s)], back, here);
      if (s == stage) gradient += here;
    }
  }
  return gradient;
}

int RunStage(rondo::Communicator& communicator) {
  const int stage = communicator.rank(), stages = communicator.world_size();
  const bool first = stage == 0, last = stage + 1 == stages;
  std::vector<Values> in(kMicroBatches, Values(kWidth)), out(kMicroBatches), back(kMicroBatches, Values(kWidth));
  std::vector<rondo::Work> activations(kMicroBatches), gradients(kMicroBatches), sends;

  // The tag of a message is the number of its micro-batch. Forward and backward messages can have equal tags, because
  // they come from different ranks.
  for (int m = 0; m < kMicroBatches; ++m) {
    const auto at = static_cast<std::size_t>(m);
    if (!first) activations[at] = communicator.RecvAsync(in[at].data(), kWidth, kType, stage - 1, m);
    if (!last) gradients[at] = communicator.RecvAsync(back[at].data(), kWidth, kType, stage + 1, m);
  }
  for (int m = 0; m < kMicroBatches; ++m) {
    const auto at = static_cast<std::size_t>(m);
    if (first) {
      in[at] = InputOf(m);
    } else if (const auto came = activations[at].Wait(); !came) {
      return Complain(stage, came.error().ToString());
    }
    out[at] = Forward(stage, in[at]);
    if (!last) sends.push_back(communicator.SendAsync(out[at].data(), kWidth, kType, stage + 1, m));
  }
  float weight_gradient = 0;
  std::vector<Values> in_gradients(kMicroBatches);
  for (int m = 0; m < kMicroBatches; ++m) {
    const auto at = static_cast<std::size_t>(m);
    if (last) {
      back[at] = LossGradient();
    } else if (const auto came = gradients[at].Wait(); !came) {
      return Complain(stage, came.error().ToString());
    }
    in_gradients[at] = Backward(stage, in[at], back[at], weight_gradient);
    if (!first) sends.push_back(communicator.SendAsync(in_gradients[at].data(), kWidth, kType, stage - 1, m));
  }
  for (rondo::Work& send : sends)
    if (const auto sent = send.Wait(); !sent) return Complain(stage, sent.error().ToString());

  const float lone = LoneWeightGradient(stage, stages);
  if (weight_gradient != lone)
    return Complain(stage, "the gradient is " + std::to_string(weight_gradient) + ", but one process computes " +
                               std::to_string(lone));
  std::printf("stage %d of %d: %d micro-batches, weight gradient %g, as in one process\n", stage, stages, kMicroBatches,
              weight_gradient);
  return 0;
}

}  // namespace

int main() {
  auto communicator = rondo::Connect({.rendezvous = "env://", .environment = rondo::ProcessEnvironment});
  if (!communicator) return Complain(-1, communicator.error().ToString());
  if (const int failed = RunStage(**communicator); failed != 0) return failed;
  const auto closed = (*communicator)->Close();
  return closed ? 0 : Complain((*communicator)->rank(), closed.error().ToString());
}
