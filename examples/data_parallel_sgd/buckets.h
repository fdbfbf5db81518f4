// Averages the gradients of many small tensors in a few large all-reduces, while the backward pass still runs.
//
//   buckets.Begin(gradient, weight);
//   ... backward pass; whenever a tensor's gradient is complete: buckets.Complete(tensor) ...
//   RONDO_TRY(buckets.Finish());                               // gradient: the average, the same bits on every rank
//
// Fusion     An all-reduce of a few bytes costs nearly what one of some KiB does, so neighbouring tensors share one.
//            Gradients lie in one flat vector that the backward pass completes from its end, so a bucket is a piece of
//            it: nothing is copied. (Scattered tensors would be copied into the bucket's buffer, as 16-bit types are.)
// Overlap    A bucket is issued with AllReduceAsync as soon as its last tensor is complete. The communicator's progress
//            thread moves it while this thread computes the gradients of the layers before.
// Order      Ranks must issue the same collectives in the same order. Their tensors need not be complete in the same
//            order (a framework's threads differ): buckets are issued strictly from the last to the first.
// Types      float32 is reduced in place. float16 and bfloat16 halve the bytes: values are rounded to the type once.
//            Each addition on the way rounds once more (bounds.h). They come back as float32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "collectives/communicator.h"
#include "examples/data_parallel_sgd/model.h"

namespace sgd {

struct BucketOptions {
  rondo::DataType type = rondo::DataType::kFloat32;  // on the wire: kFloat32, kFloat16 or kBfloat16
  std::size_t bucket_bytes = std::size_t{1} << 20;   // on the wire; a tensor that is larger has a bucket of its own
};

// One thread at a time, the one that issues the communicator's operations.
class GradientBuckets {
 public:
  // REQUIRES: `tensors` lie one after the other from 0 on; both are the same on all ranks. The communicator outlives
  // this.
  GradientBuckets(rondo::Communicator& communicator, const std::vector<Tensor>& tensors, const BucketOptions& options);
  // Waits for what has been issued: its memory is lent.
  ~GradientBuckets();
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  // `gradient` is lent until Finish returns. This rank's is multiplied by `weight` before the ranks' are averaged.
  // REQUIRES: no pass is open.
  void Begin(std::span<float> gradient, float weight);
  // Nobody writes this tensor's gradient any more. REQUIRES: once per tensor and pass, in any order.
  void Complete(std::size_t tensor);
  // Waits for all buckets. The error is the first bucket's; the gradient is then undefined.
  // REQUIRES: every tensor is complete.
  rondo::Status Finish();

  std::size_t size() const { return buckets_.size(); }
  // Buckets that were reduced already when Finish was called, over all passes: what the overlap has hidden.
  std::size_t reduced_before_finish() const { return reduced_before_finish_; }

 private:
  struct Bucket {
    std::size_t first = 0;  // in the flat gradient
    std::size_t size = 0;
    std::size_t tensors = 0;
    std::size_t missing = 0;          // of them, in this pass
    std::vector<std::uint16_t> wire;  // 16-bit types only
    rondo::Work work;
  };

  void Issue(Bucket& bucket);
  rondo::Status Collect(Bucket& bucket);

  rondo::Communicator& communicator_;
  const rondo::DataType type_;
  std::vector<Bucket> buckets_;         // in the order of issue: from the gradient's end to its front
  std::vector<std::size_t> bucket_of_;  // by tensor
  std::vector<bool> complete_;          // by tensor
  std::span<float> gradient_;
  float weight_ = 1;
  std::size_t issued_ = 0;  // buckets of this pass
  std::size_t reduced_before_finish_ = 0;
};

}  // namespace sgd
