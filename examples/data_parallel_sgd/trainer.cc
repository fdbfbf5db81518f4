#include "examples/data_parallel_sgd/trainer.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace sgd {

using rondo::DataType;
using rondo::ReduceOp;

Trainer::Trainer(rondo::Communicator& communicator, const Mlp& model, const Spirals& data,
                 const TrainerOptions& options, std::vector<float> start)
    : communicator_(communicator),
      model_(model),
      data_(data),
      options_(options),
      state_{std::move(start), std::vector<float>(model.parameter_count())},
      gradient_(model.parameter_count()),
      buckets_(communicator, model.tensors(), options.buckets) {}

rondo::Status Trainer::ShareStart() {
  float* parameters = state_.parameters.data();
  return communicator_.Broadcast(parameters, parameters, state_.parameters.size(), DataType::kFloat32, /*root=*/0);
}

rondo::Result<double> Trainer::TakeStep(Rows batch) {
  const auto rank = static_cast<std::uint64_t>(communicator_.rank());
  const auto ranks = static_cast<std::uint64_t>(communicator_.world_size());
  const Rows shard = Part(batch, rank, ranks);

  // The gradients of the shard's samples are added. The sum is weighted so that the average over the ranks is the mean
  // over all samples. (The average of the shards' means would be different if the shards have different sizes.)
  const float weight = static_cast<float>(static_cast<double>(ranks) / static_cast<double>(batch.size()));
  std::ranges::fill(gradient_, 0.0f);
  double loss = 0;
  for (std::uint64_t micro = 0; micro + 1 < options_.accumulation; ++micro)
    loss += model_.AddGradient(state_.parameters, data_.Load(Part(shard, micro, options_.accumulation)), gradient_);

  // Only the final micro-batch completes gradients. Each bucket is sent while the next bucket is computed.
  const Rows last = Part(shard, options_.accumulation - 1, options_.accumulation);
  buckets_.Begin(gradient_, weight);
  loss += model_.AddGradient(state_.parameters, data_.Load(last), gradient_,
                             [this](std::size_t tensor) { buckets_.Complete(tensor); });
  RONDO_TRY(buckets_.Finish());
  Descend(options_.descent, gradient_, state_);

  RONDO_TRY(communicator_.AllReduce(&loss, &loss, 1, DataType::kFloat64, ReduceOp::kSum));
  return loss / static_cast<double>(batch.size());
}

rondo::Result<bool> Trainer::HoldsBitsOfRank0() {
  std::vector<float> of_rank_0(state_.parameters.size());
  RONDO_TRY(communicator_.Broadcast(state_.parameters.data(), of_rank_0.data(), of_rank_0.size(), DataType::kFloat32,
                                    /*root=*/0));
  return std::memcmp(of_rank_0.data(), state_.parameters.data(), of_rank_0.size() * sizeof(float)) == 0;
}

}  // namespace sgd
