// Combines many small all-reduces into few large ones.
//
//   auto fusion = FusionBuffer::Create(communicator);
//   for (const Tensor& t : gradients) (*fusion)->Add(t.data, t.data, t.count, DataType::kFloat32, ReduceOp::kAvg);
//   (*fusion)->Wait();                                       // every gradient is now the average, equal on all ranks
//
// An all-reduce of a few bytes costs almost as much as one of some KiB. So Add copies small tensors into a bucket. The
// bucket is reduced by one all-reduce, in place, and then copied to the outputs of its tensors.
//
// Contract
//   Order     All ranks must add the same tensors (count, type, operation) in the same order, and flush at the same
//             points. Only this and bucket_bytes decide where buckets end. Buckets are ordinary collectives of the
//             communicator, issued inside Add, Flush and Wait. Buckets that differ in length or type give kMismatch on
//             all ranks. If ranks swap two tensors within a bucket, this is not detected.
//   Buckets   A bucket is issued when the next tensor does not fit, when the bucket is exactly full, when type or
//             operation change, and by Flush. A tensor of bucket_bytes or more is reduced on its own, without a copy.
//             While one bucket is being filled, the communicator's progress thread advances the others.
//   Buffers   Input and output of a tensor must be the same memory or not overlap, and the output must not be part of
//             another tensor. The caller must not change the input or use the output, and must free neither, from Add
//             until Wait returns success or an error other than kNotReady. In between, the output may be written at any
//             time. A tensor without elements adds nothing; its buffers may be null.
//   Results   Those of AllReduce on the bucket: the same bits on every rank. If results depend on how a vector is cut
//             (floats, unless `reproducible`), they may differ from those of an all-reduce of the tensor alone. The
//             factor of a pre-multiplied sum is applied during the copy. So the product is rounded to the tensor's type
//             at that time, even with fp32_accumulate.
//   Errors    If Add itself refuses its arguments (kInvalidArgument), it adds nothing, and the communicator stays
//             usable. Any other error fails all tensors that were added since the last Wait, and the communicator. The
//             call that finds the error returns it when the library no longer touches the tensors' memory, and every
//             later call returns it again. The outputs are then undefined.
//   Threads   Only the thread that issues the communicator's collectives may use this class.
#pragma once

#include <unistd.h>

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/dtype.h"
#include "base/reduce_op.h"
#include "base/result.h"
#include "collectives/communicator.h"

namespace rondo {

inline constexpr std::uint32_t kMaxFusionBuckets = 64;

struct FusionOptions {
  std::uint64_t bucket_bytes = 4 << 20;  // equal on all ranks
  // Number of buckets, from 2 to kMaxFusionBuckets. Their memory is allocated once. At most this many all-reduces are
  // pending: if Add needs one more, it waits for the oldest.
  std::uint32_t buckets = 4;
  // Options of every all-reduce. Their `scale` is not used, because Add has a parameter for it.
  OperationOptions operation = {};
};

class FusionBuffer {
 public:
  // Allocates its memory from the communicator (Communicator::Allocate). The communicator must outlive this object; if
  // it does not, only the destructor may be called. kInvalidArgument: wrong options. kUnsupported: GPU memory.
  static Result<std::unique_ptr<FusionBuffer>> Create(Communicator& communicator, const FusionOptions& options = {});
  // Waits for pending all-reduces. Drops tensors that were not flushed; ranks that do flush them wait for this rank
  // until their timeout.
  ~FusionBuffer();
  FusionBuffer(const FusionBuffer&) = delete;
  FusionBuffer& operator=(const FusionBuffer&) = delete;

  // `scale` is this rank's own factor of kPremulSum.
  Status Add(const void* input, void* output, std::uint64_t count, DataType type, ReduceOp op, double scale = 1.0);
  // Issues the bucket that is being filled, if there is one.
  Status Flush();
  // Flushes, and returns when every tensor's output is complete.
  Status Wait();
  // Like Wait(), but returns kNotReady if `deadline` passes first. Pending all-reduces continue.
  Status Wait(TimePoint deadline);
  // Waits until the next Add can take a bucket without waiting; kNotReady if `deadline` passes first. For callers that
  // must not block in Add; others need not call it.
  Status AwaitRoom(TimePoint deadline);

 private:
  struct Part {
    void* output;
    std::uint64_t bytes;
  };
  // A bucket. A tensor that is reduced on its own also uses a slot, but not the slot's memory.
  struct Slot {
    std::byte* memory = nullptr;
    std::uint64_t bytes = 0;  // packed so far
    DataType type = DataType::kUint8;
    ReduceOp op = ReduceOp::kSum;
    // the bucket's tensors, in the order of their bytes in `memory`; clearing it keeps its capacity
    std::vector<Part> parts;
    Work work;
  };

  FusionBuffer(Communicator& communicator, const FusionOptions& options);
  Status Check(const void* input, const void* output, std::uint64_t count, DataType type, ReduceOp op);
  Status Place(const void* input, void* output, std::uint64_t count, DataType type, ReduceOp op, double scale);
  Status TakeSlot();
  Status Issue(const void* input, void* output, std::uint64_t count, DataType type, ReduceOp op, double scale);
  Status FinishOldest(TimePoint deadline);
  Status FailAll(const Error& error);
  void DropAll();
  Slot& At(std::uint64_t number) { return slots_[number % slots_.size()]; }

  const int process_ = getpid();
  Communicator& communicator_;
  const FusionOptions options_;
  std::unique_ptr<Memory> memory_;
  std::vector<Slot> slots_;  // a ring: [oldest_, next_) are pending; if open_, next_ is being filled
  std::uint64_t oldest_ = 0;
  std::uint64_t next_ = 0;
  bool open_ = false;
  std::bitset<1 << 16> checked_;  // by type and operation: the communicator is known to accept this combination
  std::optional<Error> failure_;
};

}  // namespace rondo
