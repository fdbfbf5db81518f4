#include "collectives/communicator/request_checker.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "collectives/integrity/result_digest.h"
#include "collectives/intranode/intranode_path.h"
#include "collectives/schedule/layout.h"

namespace rondo {
namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 62;
// A count up to this one fits into kMaxBytes, even for 2^31 ranks and 16-byte elements.
constexpr std::uint64_t kSurelyFits = std::uint64_t{1} << 24;

using Counts = std::span<const std::uint64_t>;

// Returns the sum of the counts. kInvalidArgument if there is not one count for each rank, or if no memory could hold
// the elements.
Result<std::uint64_t> Sum(Counts counts, const char* name, int world_size, DataType type) {
  if (counts.size() != static_cast<std::size_t>(world_size))
    return Fail(ErrorCode::kInvalidArgument, "{} has {} entries, but there are {} ranks", name, counts.size(),
                world_size);
  const std::uint64_t limit = kMaxBytes / SizeOf(type);
  std::uint64_t sum = 0;
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    if (counts[rank] > limit - sum)
      return Fail(ErrorCode::kInvalidArgument, "{}[{}] = {} of {} is more than memory can hold", name, rank,
                  counts[rank], Name(type));
    sum += counts[rank];
  }
  return sum;
}

// The assumed number of bytes of all_to_all_v; no rank knows the real one, because each has only its own counts. The
// number is large, because a wrong guess costs most for large vectors.
constexpr std::uint64_t kUnknownBytes = 1 << 20;

bool IsHalf(DataType type) { return type == DataType::kFloat16 || type == DataType::kBfloat16; }

// Whether the operation rounds. If not, it does not matter how wide the partial results are.
bool Rounds(ReduceOp op) {
  return op == ReduceOp::kSum || op == ReduceOp::kProd || op == ReduceOp::kAvg || op == ReduceOp::kPremulSum;
}

// The rule of in-place calls that a call has broken, for its error.
const char* InPlaceRule(Collective collective) {
  switch (collective) {
    case Collective::kAllGather: return "input is not this rank's block of the output";
    case Collective::kReduceScatter: return "output is not this rank's block of the input";
    case Collective::kGather: return "input is not the root's block of the output";
    case Collective::kScatter: return "output is not the root's block of the input";
    default: return "they are not the same memory";
  }
}

}  // namespace

Status RequestChecker::CheckCounts(OperationRequest& request) const {
  OperationDescriptor& d = request.descriptor;
  const bool at_root = rank_ == d.root;
  const auto world = static_cast<std::uint64_t>(world_size_);
  const bool has_blocks = BlocksOf(d.collective, 2) > 1;
  std::uint64_t own = d.count, all = d.count;
  // The first comparison avoids the divisions, which would take a tenth of the time of a small operation.
  if (d.count > kSurelyFits && d.count > kMaxBytes / SizeOf(d.type) / (has_blocks ? world : 1))
    return Fail(ErrorCode::kInvalidArgument, "count {} of {} is more than memory can hold", d.count, Name(d.type));
  if (has_blocks) all = d.count * world;

  if (d.varying) {
    const auto self = static_cast<std::size_t>(rank_);
    const auto total = [&](Counts counts, const char* name) { return Sum(counts, name, world_size_, d.type); };
    Counts& in = request.input_counts;
    Counts& out = request.output_counts;
    if (d.collective == Collective::kAllToAll) {
      RONDO_ASSIGN(request.input_elements, total(in, "input_counts"));
      RONDO_ASSIGN(request.output_elements, total(out, "output_counts"));
      if (in[self] != out[self])
        return Fail(ErrorCode::kInvalidArgument,
                    "input_counts[{}] = {} and output_counts[{}] = {} must be equal, because both describe the block "
                    "from this rank to itself",
                    self, in[self], self, out[self]);
      return {};
    }
    Counts& counts = d.collective == Collective::kReduceScatter || d.collective == Collective::kScatter ? in : out;
    if (HasRoot(d.collective)) {
      if (at_root) {
        RONDO_ASSIGN(all, total(counts, "counts"));
        if (counts[self] != own)
          return Fail(ErrorCode::kInvalidArgument, "counts[{}] = {}, but the root's own count is {}", self,
                      counts[self], own);
      } else {
        counts = {};
      }
      d.count = 0;  // ranks have different counts, but the descriptor must be equal on all ranks
    } else {
      RONDO_ASSIGN(all, total(counts, "counts"));
      own = counts[self];
      d.count = all;
    }
    request.own_at = counts.empty() ? 0 : std::accumulate(counts.begin(), counts.begin() + rank_, std::uint64_t{0});
    if (!HasRoot(d.collective) &&
        std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) == counts.end()) {
      d.varying = false;  // all ranks see that the counts are equal, and every algorithm supports equal counts
      d.count = own;
      counts = {};
    }
  } else if (has_blocks && d.collective != Collective::kAllToAll) {
    request.own_at = d.count * static_cast<std::uint64_t>(rank_);
  }

  switch (d.collective) {
    case Collective::kAllReduce: request.input_elements = request.output_elements = all; break;
    case Collective::kReduce:
      request.input_elements = all;
      request.output_elements = at_root ? all : 0;
      break;
    case Collective::kBroadcast:
      request.input_elements = at_root ? all : 0;
      request.output_elements = all;
      break;
    case Collective::kAllGather:
      request.input_elements = own;
      request.output_elements = all;
      break;
    case Collective::kReduceScatter:
      request.input_elements = all;
      request.output_elements = own;
      break;
    case Collective::kGather:
      request.input_elements = own;
      request.output_elements = at_root ? all : 0;
      break;
    case Collective::kScatter:
      request.input_elements = at_root ? all : 0;
      request.output_elements = own;
      break;
    case Collective::kAllToAll: request.input_elements = request.output_elements = all; break;
    case Collective::kBarrier: break;
  }
  return {};
}

Status RequestChecker::CheckBuffers(OperationRequest& request) const {
  const Collective collective = request.descriptor.collective;
  const std::uint64_t element_bytes = SizeOf(request.descriptor.type);
  const std::uint64_t input_bytes = request.input_elements * element_bytes;
  const std::uint64_t output_bytes = request.output_elements * element_bytes;
  if (input_bytes > 0 && request.input == nullptr)
    return Fail(ErrorCode::kInvalidArgument, "input is null, but {} elements are expected there",
                request.input_elements);
  if (output_bytes > 0 && request.output == nullptr)
    return Fail(ErrorCode::kInvalidArgument, "output is null, but {} elements are expected there",
                request.output_elements);
  // On a rank that only receives, a broadcast counts as in place: the input is ignored, so the schedule must not depend
  // on it.
  request.in_place = collective == Collective::kBarrier || (collective == Collective::kBroadcast && input_bytes == 0);
  if (input_bytes == 0 || output_bytes == 0) return {};

  const auto input = reinterpret_cast<std::uintptr_t>(request.input);
  const auto output = reinterpret_cast<std::uintptr_t>(request.output);
  const std::uint64_t own_at = request.own_at * element_bytes;
  if (input >= output + output_bytes || output >= input + input_bytes) return {};
  const bool in_place = input_bytes < output_bytes ? input == output + own_at : output == input + own_at;
  if (HasInPlace(collective) && in_place) {
    request.in_place = true;
    return {};
  }
  if (!HasInPlace(collective) && input == output)
    return Fail(ErrorCode::kUnsupported, "{} has no in-place form", Name(collective));
  return Fail(ErrorCode::kInvalidArgument, "input and output overlap, but {}", InPlaceRule(collective));
}

Status RequestChecker::CheckOperation(const OperationDescriptor& d) const {
  if (SizeOf(d.type) == 0 || d.type == kInt128)
    return Fail(ErrorCode::kInvalidArgument, "{} is not a data type", static_cast<int>(d.type));
  if (!Reduces(d.collective)) return {};
  RONDO_TRY(CheckPairing(d.type, d.op));
  if (IsUserDefined(d.op) && static_cast<std::size_t>(UserOpIndex(d.op)) >= user_operations_.size())
    return Fail(ErrorCode::kInvalidArgument,
                "operation {} is not defined: this communicator has {} user-defined operations", Name(d.op),
                user_operations_.size());
  return {};
}

DataType RequestChecker::TravellingType(const OperationDescriptor& d, const OperationOptions& options) const {
  if (!Reduces(d.collective)) return d.type;
  const bool wide = options.fp32_accumulate.value_or(defaults_.fp32_accumulate);
  if (wide && IsHalf(d.type) && Rounds(d.op)) return WideTypeOf(d.type);
  // In a world of one rank, the sum is divided by 1, so no wider type is needed.
  return d.op == ReduceOp::kAvg && world_size_ > 1 ? AverageTypeOf(d.type) : d.type;
}

Call RequestChecker::CallOf(const OperationDescriptor& d, bool reproducible) const {
  const bool block_per_rank = !d.varying && BlocksOf(d.collective, 2) > 1;
  Call call;
  call.collective = d.collective;
  call.bytes = d.count * SizeOf(d.type) * (block_per_rank ? static_cast<std::uint64_t>(world_size_) : 1);
  call.reproducible = reproducible;
  if (IsUserDefined(d.op))
    call.commutative = user_operations_[static_cast<std::size_t>(UserOpIndex(d.op))]->commutative;
  call.equal_counts = !d.varying;
  if (d.varying && d.collective == Collective::kAllToAll) call.bytes = kUnknownBytes;
  return call;
}

Result<Selection> RequestChecker::Choose(const OperationDescriptor& d, const OperationOptions& options) const {
  const bool asked_for = options.algorithm == Algorithm::kIntranode;
  if (asked_for || !options.algorithm) {
    const bool shares = may_have_shared_segment();
    if (shares && IntranodePath::Serves(d))
      return Selection{Algorithm::kIntranode, asked_for ? "asked for" : "all ranks share memory"};
    if (asked_for)
      return Fail(ErrorCode::kInvalidArgument, "algorithm intranode does not support this {}: {}", Name(d.collective),
                  shares ? "it needs equal counts" : "the ranks share no memory");
  }
  return selector_.Choose(options.algorithm, CallOf(d, IsReproducible(options)));
}

Candidate RequestChecker::Expect(const OperationDescriptor& d, const OperationOptions& options,
                                 Algorithm algorithm) const {
  if (algorithm == Algorithm::kIntranode) return {.algorithm = algorithm};  // no profile has costs for this algorithm
  return selector_.Expect(algorithm, CallOf(d, IsReproducible(options)));
}

Status RequestChecker::Check(OperationRequest& request, const OperationOptions& options) const {
  OperationDescriptor& d = request.descriptor;
  RONDO_TRY(CheckOperation(d));
  if (d.root < 0 || d.root >= world_size_)
    return Fail(ErrorCode::kInvalidArgument, "root {} is outside 0..{}", d.root, world_size_ - 1);
  RONDO_TRY(CheckCounts(request));
  RONDO_TRY(CheckBuffers(request));
  request.timeout = options.timeout.value_or(defaults_.timeout);
  if (request.timeout <= Duration::zero()) return Fail(ErrorCode::kInvalidArgument, "the timeout must be positive");
  request.scale = options.scale;
  d.on_devices = options.memory == MemoryKind::kDevice;
  request.stream = options.stream;
  request.stream_waits = options.stream_waits;
  if (!d.on_devices && request.stream != nullptr)
    return Fail(ErrorCode::kInvalidArgument, "a stream is given, but the buffers are in host memory");
  if (IsUserDefined(d.op)) request.user = user_operations_[static_cast<std::size_t>(UserOpIndex(d.op))].get();

  request.type = d.type;
  request.is_in_place_for_user = request.in_place;
  d.type = TravellingType(d, options);
  if (request.wide()) {
    d.user_type = request.type;
    // Widened elements are in this communicator's own memory. On a rank that has a result, the operation is in place in
    // that memory.
    request.in_place = d.collective != Collective::kReduce || rank_ == d.root;
  }
  RONDO_ASSIGN(const Selection selection, Choose(d, options));
  d.algorithm = selection.algorithm;
  request.algorithm_is_asked = options.algorithm.has_value();
  request.reproducible = IsReproducible(options);
  request.compares =
      options.compare_results.value_or(defaults_.compare_results) && world_size_ > 1 && HasEqualResults(d.collective);
  if (request.compares && defaults_.max_pending_operations < 2)
    return Fail(ErrorCode::kInvalidArgument, "compare_results needs max_pending_operations of at least 2, but it is {}",
                defaults_.max_pending_operations);
  return {};
}

ReduceOp RequestChecker::Define(UserOperation&& operation) {
  user_operations_.push_back(std::make_shared<const UserOperation>(std::move(operation)));
  return UserOp(static_cast<int>(user_operations_.size()) - 1);
}

}  // namespace rondo
