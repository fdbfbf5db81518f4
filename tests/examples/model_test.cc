// Tests that the model's gradient is the derivative of the loss, and that it has the properties on which buckets.h and
// bounds.h depend.
#include "examples/data_parallel_sgd/model.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "examples/data_parallel_sgd/data_set.h"

namespace sgd {
namespace model_test {

TEST_CASE("the gradient is the slope of the loss, along every parameter") {
  const Mlp model({7, 5});
  const std::vector<Sample> samples = Spirals(3).Load({0, 12});
  std::vector<float> parameters = model.StartValues(rondo::Random(11));
  // Also changes the biases.
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] += 0.01f * static_cast<float>(i % 7);
  std::vector<float> gradient(parameters.size());
  model.AddGradient(parameters, samples, gradient);

  const auto loss = [&](std::size_t at, float by) {
    std::vector<float> moved = parameters, unused(parameters.size());
    moved[at] += by;
    return model.AddGradient(moved, samples, unused);
  };
  // The step of the numerical derivative. With a larger step the curvature causes errors; with a smaller step the
  // rounding of the losses does, because they are float32.
  constexpr float kStep = 0x1p-9f;
  for (const Tensor& tensor : model.tensors()) {
    bool all_zero = true;
    for (std::size_t i = tensor.first; i < tensor.end(); ++i) {
      CAPTURE(tensor.name);
      CAPTURE(i - tensor.first);
      const double slope = (loss(i, kStep) - loss(i, -kStep)) / (2 * kStep);
      CHECK(std::abs(slope - gradient[i]) < 0.005 + 0.01 * std::abs(gradient[i]));
      all_zero &= gradient[i] == 0;
    }
    CHECK_FALSE(all_zero);
  }
}

TEST_CASE("a tensor is reported once, from the last to the first, when nothing is added to it any more") {
  const Mlp model({6, 4, 5});
  const std::vector<float> parameters = model.StartValues(rondo::Random(1));
  std::vector<float> gradient(parameters.size());
  std::vector<std::vector<float>> when_reported(model.tensors().size());
  std::vector<std::size_t> order;
  model.AddGradient(parameters, Spirals(1).Load({0, 9}), gradient, [&](std::size_t tensor) {
    order.push_back(tensor);
    const auto begin = gradient.begin() + static_cast<std::ptrdiff_t>(model.tensors()[tensor].first);
    when_reported[tensor].assign(begin, begin + static_cast<std::ptrdiff_t>(model.tensors()[tensor].size));
  });
  CHECK(order == std::vector<std::size_t>{7, 6, 5, 4, 3, 2, 1, 0});
  std::vector<float> reported;
  for (const std::vector<float>& tensor : when_reported) reported.insert(reported.end(), tensor.begin(), tensor.end());
  CHECK(reported == gradient);
}

TEST_CASE("a sample adds the same bits whatever else is in its batch") {
  const Mlp model({16, 8});
  const std::vector<float> parameters = model.StartValues(rondo::Random(5));
  const std::vector<Sample> samples = Spirals(2).Load({100, 131});
  std::vector<float> together(parameters.size()), one_by_one(parameters.size());
  const double loss = model.AddGradient(parameters, samples, together);
  double sum = 0;
  for (const Sample& sample : samples) {
    std::vector<float> alone(parameters.size());
    sum += model.AddGradient(parameters, {&sample, 1}, alone);
    for (std::size_t i = 0; i < alone.size(); ++i) one_by_one[i] += alone[i];
  }
  CHECK(together == one_by_one);
  CHECK(loss == sum);
}

TEST_CASE("no samples add nothing and are reported all the same") {
  const Mlp model({4});
  const std::vector<float> parameters = model.StartValues(rondo::Random(1));
  std::vector<float> gradient(parameters.size(), 0.5f);
  std::size_t reported = 0;
  CHECK(model.AddGradient(parameters, {}, gradient, [&](std::size_t) { ++reported; }) == 0);
  CHECK(reported == 4);
  CHECK(gradient == std::vector<float>(parameters.size(), 0.5f));
}

TEST_CASE("tensors lie one after the other and fill the flat vector") {
  const Mlp model({3, 4});
  std::size_t end = 0;
  for (const Tensor& tensor : model.tensors()) {
    CHECK(tensor.first == end);
    end = tensor.end();
  }
  CHECK(end == model.parameter_count());
  CHECK(end == (kFeatures * 3 + 3) + (3 * 4 + 4) + (4 * kClasses + kClasses));
}

TEST_CASE("parts of rows lie one after the other, differ by at most one row, and cover all") {
  for (std::uint64_t rows = 0; rows <= 20; ++rows) {
    for (std::uint64_t parts = 1; parts <= 8; ++parts) {
      CAPTURE(rows);
      CAPTURE(parts);
      std::uint64_t end = 5;
      for (std::uint64_t part = 0; part < parts; ++part) {
        const Rows piece = Part({5, 5 + rows}, part, parts);
        CHECK(piece.begin == end);
        CHECK(piece.size() >= rows / parts);
        CHECK(piece.size() <= rows / parts + 1);
        end = piece.end;
      }
      CHECK(end == 5 + rows);
    }
  }
}

TEST_CASE("a row is the same sample in every process, and another for another seed") {
  const std::vector<Sample> all = Spirals(9).Load({0, 50});
  const std::vector<Sample> shard = Spirals(9).Load({20, 30});
  std::size_t equal_to_other_seed = 0;
  for (std::size_t i = 0; i < shard.size(); ++i) {
    CHECK(shard[i].features == all[20 + i].features);
    CHECK(shard[i].label == all[20 + i].label);
    equal_to_other_seed += Spirals(10).At(20 + i).features == shard[i].features;
  }
  CHECK(equal_to_other_seed == 0);
}

}  // namespace model_test
}  // namespace sgd
