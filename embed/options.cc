#include "embed/handles.h"

namespace rondo::embed {
namespace {

constexpr std::uint64_t kMaxMilliseconds = 1'000'000'000'000;  // 31 years

Result<std::optional<bool>> ChoiceOf(const char* name, int choice) {
  switch (choice) {
    case RONDO_DEFAULT: return std::optional<bool>();
    case RONDO_YES: return std::optional(true);
    case RONDO_NO: return std::optional(false);
    default: return Fail(ErrorCode::kInvalidArgument, "options.{}: {} is not a rondo_choice", name, choice);
  }
}

Result<rondo_options> KnownOptions(const rondo_options* options) {
  RONDO_ASSIGN(const rondo_options known, Known(options, rondo_options_init_sized, "options", "rondo_options_init"));
  if (known.memory != RONDO_MEMORY_HOST && known.memory != RONDO_MEMORY_CUDA)
    return Fail(ErrorCode::kInvalidArgument, "options.memory: {} is not a rondo_memory_kind",
                static_cast<int>(known.memory));
  return known;
}

}  // namespace

Result<Duration> MillisecondsOf(const char* name, std::uint64_t ms) {
  const auto with_sign = static_cast<std::int64_t>(ms);
  if (with_sign < 0)  // a language binding may have converted a negative time to this unsigned value
    return Fail(ErrorCode::kInvalidArgument,
                "{}: {} ms, or {} ms as an unsigned number, is not between 0 and {} ms (31 years)", name, with_sign, ms,
                kMaxMilliseconds);
  if (ms > kMaxMilliseconds)
    return Fail(ErrorCode::kInvalidArgument, "{}: {} ms is more than {} ms (31 years)", name, ms, kMaxMilliseconds);
  return std::chrono::milliseconds(ms);
}

Result<DataType> DataTypeOf(int dtype) {
  for (const DataType type : kAllDataTypes)
    if (static_cast<int>(type) == dtype) return type;
  return Fail(ErrorCode::kInvalidArgument, "dtype: {} is not a rondo_dtype", dtype);
}

Result<ReduceOp> ReduceOpOf(rondo_op op) {
  for (const ReduceOp known : kAllReduceOps)
    if (static_cast<int>(known) == op) return known;
  // The communicator checks later whether this user-defined operation exists.
  if (op >= kFirstUserOp && op < kFirstUserOp + kMaxUserOps) return static_cast<ReduceOp>(op);
  return Fail(ErrorCode::kInvalidArgument, "op: {} is not a rondo_op", op);
}

Result<OperationOptions> OptionsOf(const rondo_options* options) {
  OperationOptions asked;
  if (options == nullptr) return asked;
  RONDO_ASSIGN(const rondo_options known, KnownOptions(options));
  if (known.timeout_ms != 0) {
    RONDO_ASSIGN(asked.timeout, MillisecondsOf("options.timeout_ms", known.timeout_ms));
  }
  if (known.algorithm != nullptr) {
    asked.algorithm = ParseAlgorithm(known.algorithm);
    if (!asked.algorithm)
      return Fail(ErrorCode::kInvalidArgument, "options.algorithm: there is no algorithm '{}'",
                  Printable(known.algorithm));
  }
  asked.scale = known.scale;
  if (known.memory == RONDO_MEMORY_CUDA) asked.memory = MemoryKind::kDevice;
  asked.stream = known.stream;
  RONDO_ASSIGN(const std::optional<bool> stream_waits, ChoiceOf("stream_waits", known.stream_waits));
  asked.stream_waits = stream_waits.value_or(true);
  RONDO_ASSIGN(asked.reproducible, ChoiceOf("reproducible", known.reproducible));
  RONDO_ASSIGN(asked.fp32_accumulate, ChoiceOf("fp32_accumulate", known.fp32_accumulate));
  RONDO_ASSIGN(asked.compare_results, ChoiceOf("compare_results", known.compare_results));
  return asked;
}

Result<MessageOptions> MessageOptionsOf(const rondo_options* options) {
  MessageOptions asked;
  if (options == nullptr) return asked;
  RONDO_ASSIGN(const rondo_options known, KnownOptions(options));
  if (known.memory != RONDO_MEMORY_HOST || known.stream != nullptr)
    return Fail(ErrorCode::kUnsupported, "options.{}: messages work on host memory only",
                known.memory != RONDO_MEMORY_HOST ? "memory" : "stream");
  if (known.timeout_ms != 0) {
    RONDO_ASSIGN(asked.timeout, MillisecondsOf("options.timeout_ms", known.timeout_ms));
  }
  return asked;
}

}  // namespace rondo::embed

using rondo::embed::InitSized;

void rondo_options_init_sized(rondo_options* options, size_t size) {
  rondo_options defaults{};
  defaults.scale = 1;
  InitSized(options, size, defaults);
}

void rondo_store_options_init_sized(rondo_store_options* options, size_t size) {
  rondo_store_options defaults{};
  defaults.job = "default";
  defaults.timeout_ms = 60000;
  InitSized(options, size, defaults);
}

void rondo_connect_options_init_sized(rondo_connect_options* options, size_t size) {
  rondo_connect_options defaults{};
  defaults.rendezvous = "env://";
  defaults.rank = -1;
  defaults.transport = "auto";
  defaults.rails = 1;
  defaults.progress_thread = 1;
  defaults.recorded_operations = 1024;
  InitSized(options, size, defaults);
}

void rondo_rebuild_options_init_sized(rondo_rebuild_options* options, size_t size) {
  rondo_rebuild_options defaults{};
  defaults.min_ranks = 1;
  defaults.settle_ms = 5000;
  InitSized(options, size, defaults);
}

size_t rondo_dtype_size(rondo_dtype dtype) {
  const auto type = rondo::embed::DataTypeOf(dtype);
  return type ? rondo::SizeOf(*type) : 0;
}

void rondo_fusion_options_init_sized(rondo_fusion_options* options, size_t size) {
  const rondo::FusionOptions own;
  rondo_fusion_options defaults{};
  defaults.bucket_bytes = own.bucket_bytes;
  defaults.buckets = own.buckets;
  InitSized(options, size, defaults);
}
