#include "collectives/fusion_buffer.h"

#include <cstring>

#include "base/out_of_memory.h"
#include "collectives/kernels/reduce.h"

namespace rondo {
namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 62;
constexpr std::uint64_t kLine = 64;  // buckets start at cache lines

}  // namespace

FusionBuffer::FusionBuffer(Communicator& communicator, const FusionOptions& options)
    : communicator_(communicator), options_(options), slots_(options.buckets) {}

// A forked child does not wait, because the pending operations belong to the parent.
FusionBuffer::~FusionBuffer() {
  if (getpid() == process_) DropAll();
}

Result<std::unique_ptr<FusionBuffer>> FusionBuffer::Create(Communicator& communicator, const FusionOptions& options) {
  if (options.buckets < 2 || options.buckets > kMaxFusionBuckets)
    return Fail(ErrorCode::kInvalidArgument, "buckets is {}; expected 2 to {}", options.buckets, kMaxFusionBuckets);
  if (options.bucket_bytes == 0 || options.bucket_bytes > kMaxBytes / kMaxFusionBuckets)
    return Fail(ErrorCode::kInvalidArgument, "bucket_bytes is {}; expected 1 to {}", options.bucket_bytes,
                kMaxBytes / kMaxFusionBuckets);
  if (options.operation.memory != MemoryKind::kHost || options.operation.stream != nullptr)
    return Fail(ErrorCode::kUnsupported, "a fusion buffer accepts only tensors in host memory");
  if (options.operation.timeout && *options.operation.timeout <= Duration::zero())
    return Fail(ErrorCode::kInvalidArgument, "the timeout must be positive");
  return OrOutOfMemory("making a fusion buffer", [&]() -> Result<std::unique_ptr<FusionBuffer>> {
    std::unique_ptr<FusionBuffer> made(new FusionBuffer(communicator, options));
    const std::uint64_t apart = (options.bucket_bytes + kLine - 1) / kLine * kLine;
    RONDO_ASSIGN(made->memory_, communicator.Allocate(apart * options.buckets));
    std::byte* at = made->memory_->bytes().data();
    for (Slot& slot : made->slots_) {
      slot.memory = at;
      at += apart;
    }
    return made;
  });
}

Status FusionBuffer::Add(const void* input, void* output, std::uint64_t count, DataType type, ReduceOp op,
                         double scale) {
  if (failure_) return Fail(*failure_);
  if (const Status fits = Check(input, output, count, type, op); !fits) {
    communicator_.NoteRefusal("all_reduce, fused: " + fits.error().message());
    return fits;
  }
  if (count == 0) return {};
  const Status placed = OrOutOfMemory("adding a tensor", [&] { return Place(input, output, count, type, op, scale); });
  return placed || failure_ ? placed : FailAll(placed.error());
}

Status FusionBuffer::Check(const void* input, const void* output, std::uint64_t count, DataType type, ReduceOp op) {
  const std::size_t pairing = static_cast<std::size_t>(type) << 8 | static_cast<std::size_t>(op);
  if (!checked_[pairing]) {
    RONDO_TRY(communicator_.Choose({.collective = Collective::kAllReduce, .count = count, .type = type, .op = op},
                                   options_.operation));
    checked_[pairing] = true;
  }
  if (count == 0) return {};
  if (count > kMaxBytes / SizeOf(type))
    return Fail(ErrorCode::kInvalidArgument, "count {} of {} is more than memory can hold", count, Name(type));
  if (input == nullptr || output == nullptr)
    return Fail(ErrorCode::kInvalidArgument, "{} is null, but {} elements are expected there",
                input == nullptr ? "input" : "output", count);
  const auto in = reinterpret_cast<std::uintptr_t>(input);
  const auto out = reinterpret_cast<std::uintptr_t>(output);
  const std::uint64_t bytes = count * SizeOf(type);
  if (in != out && in < out + bytes && out < in + bytes)
    return Fail(ErrorCode::kInvalidArgument, "input and output overlap, but they are not the same memory");
  return {};
}

Status FusionBuffer::Place(const void* input, void* output, std::uint64_t count, DataType type, ReduceOp op,
                           double scale) {
  const std::uint64_t bytes = count * SizeOf(type);
  if (bytes >= options_.bucket_bytes) {
    RONDO_TRY(Flush());
    RONDO_TRY(TakeSlot());
    return Issue(input, output, count, type, op, scale);
  }
  if (open_) {
    const Slot& filled = At(next_);
    if (filled.type != type || filled.op != op || filled.bytes > options_.bucket_bytes - bytes) RONDO_TRY(Flush());
  }
  if (!open_) {
    RONDO_TRY(TakeSlot());
    At(next_).type = type;
    At(next_).op = op;
    open_ = true;
  }
  Slot& bucket = At(next_);
  bucket.parts.push_back({output, bytes});
  std::byte* const to = bucket.memory + bucket.bytes;
  // Ranks and tensors have different scales, but the all-reduce of the bucket has only one. So the scale is applied
  // during the copy.
  if (op == ReduceOp::kPremulSum)
    Scale(to, static_cast<const std::byte*>(input), count, type, scale);
  else
    std::memcpy(to, input, bytes);
  bucket.bytes += bytes;
  return bucket.bytes == options_.bucket_bytes ? Flush() : Status{};
}

// Makes sure that the next slot is free.
Status FusionBuffer::TakeSlot() {
  if (next_ - oldest_ < slots_.size()) return {};
  return FinishOldest(TimePoint::max());
}

Status FusionBuffer::Issue(const void* input, void* output, std::uint64_t count, DataType type, ReduceOp op,
                           double scale) {
  OperationOptions operation = options_.operation;
  operation.scale = scale;
  Slot& slot = At(next_);
  while (true) {
    slot.work = communicator_.AllReduceAsync(input, output, count, type, op, operation);
    if (!slot.work.refused()) break;
    // kResource may come before all slots are in use, because the communicator's limit of pending operations may be
    // lower than the number of slots.
    if (slot.work.refused()->code() != ErrorCode::kResource || oldest_ == next_) return FailAll(*slot.work.refused());
    RONDO_TRY(FinishOldest(TimePoint::max()));
  }
  ++next_;
  open_ = false;
  return {};
}

Status FusionBuffer::Flush() {
  if (failure_) return Fail(*failure_);
  if (!open_) return {};
  const Slot& bucket = At(next_);
  return Issue(bucket.memory, bucket.memory, bucket.bytes / SizeOf(bucket.type), bucket.type, bucket.op, 1.0);
}

Status FusionBuffer::Wait() { return Wait(TimePoint::max()); }

Status FusionBuffer::Wait(TimePoint deadline) {
  RONDO_TRY(Flush());
  while (oldest_ != next_) RONDO_TRY(FinishOldest(deadline));
  return {};
}

Status FusionBuffer::AwaitRoom(TimePoint deadline) {
  if (failure_) return Fail(*failure_);
  // The bucket that is being filled also counts, because it may have to be issued to make room for the next tensor.
  if (next_ - oldest_ + (open_ ? 1 : 0) < slots_.size()) return {};
  return FinishOldest(deadline);
}

// REQUIRES: an all-reduce is pending.
Status FusionBuffer::FinishOldest(TimePoint deadline) {
  Slot& slot = At(oldest_);
  if (const Status ended = slot.work.Wait(deadline); !ended)
    return ended.error().code() == ErrorCode::kNotReady ? ended : FailAll(ended.error());
  const std::byte* from = slot.memory;
  for (const Part& part : slot.parts) {
    std::memcpy(part.output, from, part.bytes);
    from += part.bytes;
  }
  slot.parts.clear();
  slot.bytes = 0;
  ++oldest_;
  return {};
}

Status FusionBuffer::FailAll(const Error& error) {
  failure_ = error;
  // Without an abort, other ranks would wait for buckets that this rank never issues.
  if (!communicator_.failure() && error.code() != ErrorCode::kClosed) communicator_.Abort(error.message());
  DropAll();
  return Fail(error);
}

// Pending operations end by themselves, within their timeouts at the latest.
void FusionBuffer::DropAll() {
  for (; oldest_ != next_; ++oldest_) (void)At(oldest_).work.Wait();
  open_ = false;
}

}  // namespace rondo
