#include "examples/data_parallel_sgd/buckets.h"

#include <algorithm>

#include "base/check.h"
#include "base/half.h"

namespace sgd {

using rondo::DataType;

GradientBuckets::GradientBuckets(rondo::Communicator& communicator, const std::vector<Tensor>& tensors,
                                 const BucketOptions& options)
    : communicator_(communicator), type_(options.type), bucket_of_(tensors.size()), complete_(tensors.size(), true) {
  RONDO_CHECK(type_ == DataType::kFloat32 || type_ == DataType::kFloat16 || type_ == DataType::kBfloat16);
  const std::size_t limit = options.bucket_bytes / SizeOf(type_);
  for (std::size_t tensor = tensors.size(); tensor-- > 0;) {
    if (buckets_.empty() || buckets_.back().size + tensors[tensor].size > limit) buckets_.emplace_back();
    Bucket& bucket = buckets_.back();
    bucket.first = tensors[tensor].first;
    bucket.size += tensors[tensor].size;
    ++bucket.tensors;
    bucket_of_[tensor] = buckets_.size() - 1;
  }
  if (type_ == DataType::kFloat32) return;
  for (Bucket& bucket : buckets_) bucket.wire.resize(bucket.size);
}

GradientBuckets::~GradientBuckets() {
  for (std::size_t i = 0; i < issued_; ++i) (void)buckets_[i].work.Wait();
}

void GradientBuckets::Begin(std::span<float> gradient, float weight) {
  RONDO_CHECK(issued_ == 0, "the previous pass is not finished");
  gradient_ = gradient;
  weight_ = weight;
  complete_.assign(complete_.size(), false);
  for (Bucket& bucket : buckets_) bucket.missing = bucket.tensors;
}

void GradientBuckets::Complete(std::size_t tensor) {
  RONDO_CHECK(!complete_[tensor], "tensor {} is already complete", tensor);
  complete_[tensor] = true;
  --buckets_[bucket_of_[tensor]].missing;
  while (issued_ < buckets_.size() && buckets_[issued_].missing == 0) Issue(buckets_[issued_++]);
}

void GradientBuckets::Issue(Bucket& bucket) {
  const std::span<float> values = gradient_.subspan(bucket.first, bucket.size);
  void* wire = bucket.wire.data();
  switch (type_) {
    case DataType::kFloat16:
      std::ranges::transform(values, bucket.wire.begin(), [&](float v) { return rondo::ToFloat16(v * weight_); });
      break;
    case DataType::kBfloat16:
      std::ranges::transform(values, bucket.wire.begin(), [&](float v) { return rondo::ToBfloat16(v * weight_); });
      break;
    default:
      for (float& value : values) value *= weight_;
      wire = values.data();
  }
  bucket.work = communicator_.AllReduceAsync(wire, wire, bucket.size, type_, rondo::ReduceOp::kAvg);
}

rondo::Status GradientBuckets::Collect(Bucket& bucket) {
  RONDO_TRY(bucket.work.Wait());
  const auto values = gradient_.begin() + static_cast<std::ptrdiff_t>(bucket.first);
  if (type_ == DataType::kFloat16) std::ranges::transform(bucket.wire, values, rondo::FromFloat16);
  if (type_ == DataType::kBfloat16) std::ranges::transform(bucket.wire, values, rondo::FromBfloat16);
  return {};
}

rondo::Status GradientBuckets::Finish() {
  RONDO_CHECK(issued_ == buckets_.size(), "bucket {} still lacks {} tensors", issued_, buckets_[issued_].missing);
  for (Bucket& bucket : buckets_) reduced_before_finish_ += bucket.work.Test().has_value();
  rondo::Status first_error;
  for (Bucket& bucket : buckets_) {
    const rondo::Status collected = Collect(bucket);
    if (!collected && first_error) first_error = collected;
  }
  issued_ = 0;
  return first_error;
}

}  // namespace sgd
