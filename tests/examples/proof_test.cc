// Tests that the proof accepts training with any number of ranks, and detects every common mistake of data parallelism.
#include "examples/data_parallel_sgd/proof.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "base/half.h"
#include "examples/data_parallel_sgd/trainer.h"
#include "tests/support/ranks.h"

namespace sgd {
namespace proof_test {

using rondo::Communicator;
using rondo::DataType;

constexpr DescentOptions kDescent{0.05f, 0.9f};

Sharing SharingOf(std::uint64_t batch, int ranks, DataType type) {
  return {batch, Part({0, batch}, 0, static_cast<std::uint64_t>(ranks)).size(), ranks, type};
}

TEST_CASE("every step of any number of ranks is one process's step up to rounding, with the same bits on all") {
  const Mlp model({12, 8});
  const Spirals data(4);
  for (const int ranks : {1, 2, 3, 4, 5}) {
    rondo::InprocNetwork network(ranks);
    rondo::OnRanks(network, [&](Communicator& communicator) {
      const auto rank = static_cast<std::uint64_t>(communicator.rank());
      for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16}) {
        for (const std::uint64_t batch : {1, 7, 32}) {  // 1: fewer samples than ranks; 7: unequal shards
          for (const std::uint64_t accumulation : {1, 3}) {
            Trainer trainer(communicator, model, data, {kDescent, {type, 256}, accumulation},
                            model.StartValues(rondo::Random(rank)));
            CHECK(trainer.ShareStart());
            Proof proof(model, data, kDescent, SharingOf(batch, ranks, type), trainer.state());
            for (std::uint64_t step = 0; step < 5; ++step) {
              const Rows rows{step * batch, (step + 1) * batch};
              const TrainingState before = trainer.state();
              const rondo::Result<double> loss = trainer.TakeStep(rows);
              REQUIRE(loss);
              CHECK(trainer.HoldsBitsOfRank0().value_or(false));
              const StepReport report = proof.Check(rows, before, trainer.state(), *loss);
              CHECK_MESSAGE(report.good(), proof.Complaint(report));
              CHECK(report.run_parameters_difference < (type == DataType::kFloat32 ? 1e-6 : 0.1));
            }
          }
        }
      }
      CHECK(communicator.Close());
    });
  }
}

TEST_CASE("one rank without compression or micro-batches takes one process's step bit by bit") {
  const Mlp model({12});
  const Spirals data(4);
  rondo::InprocNetwork network(1);
  rondo::OnRanks(network, [&](Communicator& communicator) {
    Trainer trainer(communicator, model, data, {kDescent, {}, 1}, model.StartValues(rondo::Random(1)));
    Proof proof(model, data, kDescent, SharingOf(32, 1, DataType::kFloat32), trainer.state());
    const TrainingState before = trainer.state();
    const rondo::Result<double> loss = trainer.TakeStep({0, 32});
    REQUIRE(loss);
    const StepReport report = proof.Check({0, 32}, before, trainer.state(), *loss);
    CHECK(report.parameters.largest_share == 0);
    CHECK(report.loss_difference == 0);
    CHECK(communicator.Close());
  });
}

TEST_CASE("ranks whose parameters differ are seen") {
  const Mlp model({4});
  const Spirals data(1);
  rondo::InprocNetwork network(3);
  rondo::OnRanks(network, [&](Communicator& communicator) {
    std::vector<float> start = model.StartValues(rondo::Random(1));
    if (communicator.rank() == 2) start.back() = std::nextafter(start.back(), 1.0f);
    Trainer trainer(communicator, model, data, {}, start);  // a mistake: the initial values of rank 0 are not broadcast
    CHECK(trainer.HoldsBitsOfRank0().value() == (communicator.rank() != 2));
    CHECK(communicator.Close());
  });
}

// One step of four ranks on 30 samples, computed here so that tests can introduce mistakes.
class WrongStep {
 public:
  static constexpr int kRanks = 4;
  static constexpr std::uint64_t kBatch = 30;  // shards of 8, 8, 7, 7

  WrongStep() : model_({12, 8}), data_(4), before_{model_.StartValues(rondo::Random(3)), {}} {
    before_.velocity.assign(model_.parameter_count(), 0.01f);
  }

  std::vector<float> SumOver(Rows rows) const {
    std::vector<float> sum(model_.parameter_count());
    model_.AddGradient(before_.parameters, data_.Load(rows), sum);
    return sum;
  }
  static Rows Shard(std::uint64_t rank) { return Part({0, kBatch}, rank, kRanks); }

  // Sums the gradients of the four ranks, each multiplied by its weight.
  std::vector<float> Combine(const std::function<std::vector<float>(std::uint64_t rank)>& sum_of,
                             const std::function<float(std::uint64_t rank)>& weight_of) const {
    std::vector<float> gradient(model_.parameter_count());
    for (std::uint64_t rank = 0; rank < kRanks; ++rank) {
      const std::vector<float> sum = sum_of(rank);
      for (std::size_t i = 0; i < sum.size(); ++i) gradient[i] += weight_of(rank) * sum[i];
    }
    return gradient;
  }
  std::vector<float> Right() const {
    return Combine([this](std::uint64_t rank) { return SumOver(Shard(rank)); },
                   [](std::uint64_t) { return 1.0f / kBatch; });
  }

  // The report of the proof for a step with this gradient.
  StepReport Report(const std::vector<float>& gradient, DataType type = DataType::kFloat32,
                    const std::function<void(TrainingState&)>& spoil = nullptr, double loss_factor = 1) const {
    TrainingState after = before_;
    Descend(kDescent, gradient, after);
    if (spoil) spoil(after);
    std::vector<float> unused(model_.parameter_count());
    const double loss = model_.AddGradient(before_.parameters, data_.Load({0, kBatch}), unused) / kBatch * loss_factor;
    return NewProof(type).Check({0, kBatch}, before_, after, loss);
  }
  Proof NewProof(DataType type) const {
    return Proof(model_, data_, kDescent, SharingOf(kBatch, kRanks, type), before_);
  }

  const Mlp& model() const { return model_; }

 private:
  Mlp model_;
  Spirals data_;
  TrainingState before_;
};

TEST_CASE("the usual mistakes are beyond what rounding explains") {
  const WrongStep step;
  const auto per_sample = [](std::uint64_t) { return 1.0f / WrongStep::kBatch; };
  const auto shard_sum = [&](std::uint64_t rank) { return step.SumOver(WrongStep::Shard(rank)); };
  CHECK(step.Report(step.Right()).good());

  SUBCASE("a sample lost at the end of a shard") {
    const auto sum = [&](std::uint64_t rank) {
      const Rows shard = WrongStep::Shard(rank);
      return step.SumOver({shard.begin, shard.end - (rank == 1 ? 1 : 0)});
    };
    CHECK_FALSE(step.Report(step.Combine(sum, per_sample)).good());
  }
  SUBCASE("a sample that is in two shards") {
    const auto sum = [&](std::uint64_t rank) {
      const Rows shard = WrongStep::Shard(rank);
      return step.SumOver({shard.begin - (rank == 2 ? 1 : 0), shard.end});
    };
    CHECK_FALSE(step.Report(step.Combine(sum, per_sample)).good());
  }
  SUBCASE("the average of the means of unequal shards") {
    const auto mean = [](std::uint64_t rank) {
      return 1.0f / WrongStep::kRanks / static_cast<float>(WrongStep::Shard(rank).size());
    };
    CHECK_FALSE(step.Report(step.Combine(shard_sum, mean)).good());
  }
  SUBCASE("a sum where an average was due, and an average twice") {
    CHECK_FALSE(step.Report(step.Combine(shard_sum, [](std::uint64_t) { return 4.0f / WrongStep::kBatch; })).good());
    CHECK_FALSE(step.Report(step.Combine(shard_sum, [](std::uint64_t) { return 0.25f / WrongStep::kBatch; })).good());
  }
  SUBCASE("a micro-batch whose gradient was overwritten by the next one's") {
    const auto last_micro = [&](std::uint64_t rank) { return step.SumOver(Part(WrongStep::Shard(rank), 1, 2)); };
    CHECK_FALSE(step.Report(step.Combine(last_micro, per_sample)).good());
  }
  SUBCASE("a tensor that was left out of the buckets, so that rank 0 keeps its own") {
    for (const Tensor& tensor : step.model().tensors()) {
      std::vector<float> gradient = step.Right();
      const std::vector<float> own = step.SumOver(WrongStep::Shard(0));
      for (std::size_t i = tensor.first; i < tensor.end(); ++i) gradient[i] = own[i] * 4.0f / WrongStep::kBatch;
      const StepReport report = step.Report(gradient);
      REQUIRE_FALSE(report.good());
      CHECK(step.NewProof(DataType::kFloat32).Complaint(report).find(tensor.name) != std::string::npos);
    }
  }
  SUBCASE("gradients that were rounded to 16 bits where float32 was promised") {
    std::vector<float> gradient = step.Right();
    for (float& value : gradient) value = rondo::FromBfloat16(rondo::ToBfloat16(value));
    CHECK_FALSE(step.Report(gradient).good());
    CHECK(step.Report(gradient, DataType::kBfloat16).good());
  }
  SUBCASE("a shard lost where gradients are compressed") {
    const auto sum = [&](std::uint64_t rank) { return rank == 3 ? step.SumOver({0, 0}) : shard_sum(rank); };
    for (const DataType type : {DataType::kFloat16, DataType::kBfloat16})
      CHECK_FALSE(step.Report(step.Combine(sum, per_sample), type).good());
  }
}

TEST_CASE("a single wrong number is named") {
  const WrongStep step;
  const Tensor& bias = step.model().tensors()[3];
  const auto complaint = [&](float value) {
    const StepReport report = step.Report(step.Right(), DataType::kFloat32,
                                          [&](TrainingState& after) { after.parameters[bias.first + 2] = value; });
    CHECK_FALSE(report.good());
    return step.NewProof(DataType::kFloat32).Complaint(report);
  };
  CHECK(complaint(0.25f).find("element 2 of bias 1") == 0);
  CHECK(complaint(std::numeric_limits<float>::quiet_NaN()).find("element 2 of bias 1 is not a finite number") == 0);
  CHECK(complaint(std::numeric_limits<float>::infinity()).find("element 2 of bias 1 is not a finite number") == 0);
}

TEST_CASE("a velocity that is off is seen before it moves a parameter") {
  const WrongStep step;
  CHECK_FALSE(
      step.Report(step.Right(), DataType::kFloat32, [](TrainingState& after) { after.velocity[0] += 1e-3f; }).good());
}

TEST_CASE("a wrong loss is reported with its bound") {
  const WrongStep step;
  const StepReport report = step.Report(step.Right(), DataType::kFloat32, nullptr, 1 + 1e-12);
  REQUIRE_FALSE(report.good());
  CHECK(report.parameters.good());
  CHECK(step.NewProof(DataType::kFloat32).Complaint(report).find("the loss differs by") == 0);
}

TEST_CASE("a sum with more roundings than a type has bits has no bound") {
  CHECK(std::isfinite(BoundGradient({1024, 8, 128, DataType::kBfloat16}).relative));
  CHECK(std::isinf(BoundGradient({1024, 4, 256, DataType::kBfloat16}).relative));
}

}  // namespace proof_test
}  // namespace sgd
