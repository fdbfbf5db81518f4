// Many small all-reduces as few large ones.
//
//   auto fusion = FusionBuffer::Create(communicator);
//   for (const Tensor& t : gradients) (*fusion)->Add(t.data, t.data, t.count, DataType::kFloat32, ReduceOp::kAvg);
//   (*fusion)->Wait();                                       // every gradient is the average, the same on every rank
//
// An all-reduce of a few bytes costs nearly what one of some KiB does. So what is added is copied into a bucket, which
// is reduced as one, in place, and copied to where it belongs.
//
// Contract
//   Order     All ranks add the same tensors (count, type, operation) in the same order, and flush at the same places:
//             where buckets end follows from that and from bucket_bytes alone. Buckets are collectives of the
//             communicator like others, issued inside Add, Flush and Wait. A bucket of another length or type gives
//             kMismatch on all ranks; that ranks have swapped two tensors within a bucket goes unnoticed.
//   Buckets   One goes out when the next tensor does not fit, when it is exactly full, when type or operation change,
//             and by Flush. A tensor of bucket_bytes or more goes by itself from where it lies, without a copy. While
//             a bucket is filled others are under way, driven by the communicator's progress thread.
//   Buffers   Input and output of a tensor are one memory or do not overlap, and the output is no part of another
//             tensor. They are lent from Add until Wait returns, with success or an error other than kNotReady; in
//             between the output may be written at any time. A tensor without elements is nothing: no bucket, no bytes,
//             null or not.
//   Results   As of AllReduce on the bucket: the same bits on every rank. Where they depend on how a vector is cut (of
//             floats, unless `reproducible`) they are not those of the tensor alone. A pre-multiplied sum is multiplied
//             while it is copied, and so rounded to its type there, also with wide_partials.
//   Errors    What Add itself gets wrong (kInvalidArgument) adds nothing, and the communicator goes on. Any other error
//             fails all that was added since the last Wait, and the communicator with it: the call that finds it
//             returns it once nobody touches any of that memory, and every later call returns it again. Outputs are
//             then undefined.
//   Threads   One at a time: the one that issues the communicator's collectives.
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

inline constexpr std::uint32_t kMostFusionBuckets = 64;

struct FusionOptions {
  std::uint64_t bucket_bytes = 4 << 20;  // equal on all ranks
  // From 2 to kMostFusionBuckets. The memory of so many is taken once, and so many all-reduces may be under way: where
  // there are more, Add waits for the oldest.
  std::uint32_t buckets = 4;
  OperationOptions operation = {};  // of every all-reduce; its scale is Add's
};

class FusionBuffer {
 public:
  // Takes its memory from the communicator (Allocate), which must outlive it, or be used for nothing but the destructor
  // afterwards. kInvalidArgument: the options.
  static Result<std::unique_ptr<FusionBuffer>> Create(Communicator& communicator, const FusionOptions& options = {});
  // Waits for what is under way. What was not flushed is dropped, and never comes on other ranks that flush it.
  ~FusionBuffer();
  FusionBuffer(const FusionBuffer&) = delete;
  FusionBuffer& operator=(const FusionBuffer&) = delete;

  // `scale` is that of kPremulSum, this rank's own.
  Status Add(const void* input, void* output, std::uint64_t count, DataType type, ReduceOp op, double scale = 1.0);
  // Issues the bucket that is not full, if there is one.
  Status Flush();
  // Flushes, and returns when every tensor is where it belongs.
  Status Wait();
  // kNotReady when `deadline` passes first; everything goes on.
  Status Wait(TimePoint deadline);
  // Returns when the next Add will find a bucket without waiting; kNotReady when `deadline` passes first. For callers
  // that must not be stuck in Add; others need not call it.
  Status AwaitRoom(TimePoint deadline);

 private:
  struct Part {
    void* output;
    std::uint64_t bytes;
  };
  // A bucket, or what takes a bucket's turn without its memory.
  struct Slot {
    std::byte* memory = nullptr;
    std::uint64_t bytes = 0;  // packed so far
    DataType type = DataType::kUint8;
    ReduceOp op = ReduceOp::kSum;
    std::vector<Part> parts;  // in the order of the memory; keeps its capacity
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
  std::vector<Slot> slots_;  // a ring: [oldest_, next_) are under way, next_ is filled while open_
  std::uint64_t oldest_ = 0;
  std::uint64_t next_ = 0;
  bool open_ = false;
  std::bitset<1 << 16> checked_;  // by type and operation: pairings that the communicator takes
  std::optional<Error> failure_;
};

}  // namespace rondo
