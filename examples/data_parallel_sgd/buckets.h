// Averages the gradients of many small tensors in a few large all-reduces, while the backward pass still runs.
//
//   buckets.Begin(gradient, weight);
//   ... backward pass; whenever a tensor's gradient is complete: buckets.Complete(tensor) ...
//   RONDO_TRY(buckets.Finish()); // gradient: the average, bit for bit the same on every rank
//
// Fusion     An all-reduce of a few bytes costs almost as much as one of some KiB, so neighbouring tensors share one.
//            Gradients are in one flat vector that the backward pass completes from its end. So a bucket is a part of
//            that vector, and nothing is copied. (Scattered tensors would be copied into the bucket's buffer, as 16-bit
//            types are.)
// Overlap    A bucket is issued with AllReduceAsync as soon as its last tensor is complete. The communicator's progress
//            thread transfers it while this thread computes the gradients of the earlier layers.
// Order      Ranks must issue the same collectives in the same order. Their tensors need not be complete in the same
//            order (a framework's threads differ): buckets are issued strictly from the last to the first.
// Types      float32 is reduced in place. float16 and bfloat16 halve the bytes: values are rounded to the type once,
//            and each addition rounds once more (bounds.h). The results are converted back to float32.
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
  // The type in which gradients are sent: kFloat32, kFloat16 or kBfloat16.
  rondo::DataType type = rondo::DataType::kFloat32;
  // The size of a bucket, with elements of `type`. A larger tensor has its own bucket.
  std::size_t bucket_bytes = std::size_t{1} << 20;
};

// Thread rule: only the thread that issues the communicator's operations may use it.
class GradientBuckets {
 public:
  // REQUIRES: `tensors` are packed one after the other, from offset 0. Both `tensors` and `options` are the same on all
  // ranks. The communicator must outlive this object.
  GradientBuckets(rondo::Communicator& communicator, const std::vector<Tensor>& tensors, const BucketOptions& options);
  // Waits for all issued buckets, because their operations use the memory of this object.
  ~GradientBuckets();
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  // Begins a pass. The caller must not touch `gradient` until Finish returns, except to write gradients that are not
  // complete yet. This rank's gradient is multiplied by `weight` before the ranks' gradients are averaged. REQUIRES: no
  // pass is open.
  void Begin(std::span<float> gradient, float weight);
  // Declares that this tensor's gradient is final. REQUIRES: called once per tensor and pass, in any order.
  void Complete(std::size_t tensor);
  // Waits for all buckets. Returns the first bucket's error; the gradient is then undefined. REQUIRES: every tensor is
  // complete.
  rondo::Status Finish();

  std::size_t size() const { return buckets_.size(); }
  // The number of buckets that were already reduced when Finish was called, over all passes. It shows the effect of the
  // overlap.
  std::size_t reduced_before_finish() const { return reduced_before_finish_; }

 private:
  struct Bucket {
    std::size_t first = 0;  // offset in the flat gradient
    std::size_t size = 0;
    std::size_t tensors = 0;
    std::size_t missing = 0;          // number of tensors that are not complete yet in this pass
    std::vector<std::uint16_t> wire;  // the elements as they are sent; used only for 16-bit types
    rondo::Work work;
  };

  void Issue(Bucket& bucket);
  rondo::Status Collect(Bucket& bucket);

  rondo::Communicator& communicator_;
  const rondo::DataType type_;
  std::vector<Bucket> buckets_;         // in the order of issue: from the end of the gradient to its beginning
  std::vector<std::size_t> bucket_of_;  // indexed by tensor
  std::vector<bool> complete_;          // indexed by tensor
  std::span<float> gradient_;
  float weight_ = 1;
  std::size_t issued_ = 0;  // number of buckets issued in this pass
  std::size_t reduced_before_finish_ = 0;
};

}  // namespace sgd
