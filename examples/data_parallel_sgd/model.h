// The model is a multi-layer perceptron with ReLU between its layers, and softmax cross entropy as its loss. It does
// not depend on other processes. For data parallelism it only has to report when the gradient of a tensor is complete.
//
// All parameters are in one flat vector, tensor after tensor, in the order in which the forward pass uses them (weight
// 0, bias 0, weight 1 ...). Their gradients have the same layout. The backward pass therefore completes the gradient
// from its end to its beginning.
//
// The sums over samples are plain float32 sums in the order of the rows. One sample's contribution is bit for bit the
// same, whatever other samples are in its batch; bounds.h depends on this. (Between hosts this is true only for CPUs of
// the same kind, because the C library chooses the instructions of exp and log at run time.)
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "examples/data_parallel_sgd/data_set.h"

namespace sgd {

// A parameter tensor's range in the flat vectors.
struct Tensor {
  std::string name;  // "weight 0", "bias 0"
  std::size_t first = 0;
  std::size_t size = 0;

  std::size_t end() const { return first + size; }
};

// Called with the index of a tensor when its gradient is complete. The tensors come in descending order of their
// indices.
using GradientHook = std::function<void(std::size_t tensor)>;

class Mlp {
 public:
  // `hidden`: the width of each hidden layer, none of them zero.
  explicit Mlp(const std::vector<std::size_t>& hidden);

  const std::vector<Tensor>& tensors() const { return tensors_; }
  std::size_t parameter_count() const { return tensors_.back().end(); }

  // Initial values (He et al., "Delving deep into rectifiers", ICCV 2015; uniform, biases zero).
  std::vector<float> StartValues(rondo::Random random) const;

  // Returns the sum of the samples' losses and adds the sum of their gradients to `gradient`. Without samples it
  // returns zero and adds nothing, but still calls the hook. REQUIRES: both spans have parameter_count() elements.
  double AddGradient(std::span<const float> parameters, std::span<const Sample> samples, std::span<float> gradient,
                     const GradientHook& on_complete = nullptr) const;

  // The share of samples for which the model gives the correct label the highest probability.
  double Accuracy(std::span<const float> parameters, std::span<const Sample> samples) const;

 private:
  std::size_t layers() const { return widths_.size() - 1; }
  // The output of every layer, rows * width each; the first entry is the input.
  std::vector<std::vector<float>> Forward(std::span<const float> parameters, std::span<const Sample> samples) const;

  std::vector<std::size_t> widths_;  // the widths of the input, of the hidden layers, and of the output
  std::vector<Tensor> tensors_;      // weight (inputs x outputs, row by row) and bias of each layer
};

}  // namespace sgd
