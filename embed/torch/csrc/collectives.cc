// c10d's collectives, each implemented as one collective of Rondo.
#include <algorithm>
#include <utility>

#include "backend.h"
#include "tensors.h"

namespace rondo_torch {
namespace {

using c10d::OpType;

std::vector<uint64_t> BytesOfEach(const Tensors& tensors) {
  std::vector<uint64_t> bytes;
  for (const at::Tensor& tensor : tensors) bytes.push_back(BytesOf(tensor));
  return bytes;
}

bool AreEqual(const std::vector<uint64_t>& counts) {
  return std::all_of(counts.begin(), counts.end(), [&](uint64_t count) { return count == counts.front(); });
}

// The sizes in bytes of the blocks on one side of an alltoall_base.
std::vector<uint64_t> Splits(const at::Tensor& tensor, const std::vector<int64_t>& splits, int size, const char* what) {
  const int64_t rows = tensor.dim() == 0 ? 0 : tensor.size(0);
  const uint64_t row = rows == 0 ? 0 : BytesOf(tensor) / static_cast<uint64_t>(rows);
  if (splits.empty()) {
    TORCH_CHECK(rows % size == 0, what, ": ", rows, " rows cannot be divided evenly among ", size, " ranks");
    return std::vector<uint64_t>(static_cast<size_t>(size), row * static_cast<uint64_t>(rows / size));
  }
  TORCH_CHECK(splits.size() == static_cast<size_t>(size), what, ": ", splits.size(),
              " splits; expected one for each of ", size, " ranks");
  std::vector<uint64_t> bytes;
  int64_t sum = 0;
  for (const int64_t split : splits) {
    TORCH_CHECK(split >= 0, what, ": expected splits of at least 0, got ", split);
    sum += split;
    bytes.push_back(row * static_cast<uint64_t>(split));
  }
  TORCH_CHECK(sum == rows, what, ": the splits have ", sum, " rows in all, but the tensor has ", rows);
  return bytes;
}

}  // namespace

// ---- collectives with one tensor on each rank ----

WorkPtr RondoBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) try {
  const at::Tensor& tensor = OnlyOf(tensors, "broadcast");
  const Packed packed = InPlace(tensor);
  void* const data = DataOf(packed.flat);
  const auto root = static_cast<int32_t>(opts.rootRank);
  return RunCollective({OpType::BROADCAST, "broadcast", tensors, {packed.flat}, packed.back}, opts.timeout,
                       [&](const rondo_options* o, rondo_work** work, rondo_error** error) {
                         return rondo_broadcast_async(comm_.get(), data, data, BytesOf(tensor), RONDO_UINT8, root, o,
                                                      work, error);
                       });
} catch (const std::exception& reason) {
  NoteRefusal("broadcast", reason);
  throw;
}

WorkPtr RondoBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) try {
  TORCH_CHECK(tensors.size() == 1, "allreduce: expected one tensor, got ", tensors.size());
  if (tensors.front().is_sparse()) return SumSparse(tensors.front(), opts);
  return allreduce_coalesced(tensors, [&] {
    c10d::AllreduceCoalescedOptions same;
    same.reduceOp = opts.reduceOp;
    same.timeout = opts.timeout;
    return same;
  }());
} catch (const std::exception& reason) {
  NoteRefusal("all_reduce", reason);
  throw;
}

WorkPtr RondoBackend::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) try {
  TORCH_CHECK(!tensors.empty(), "allreduce_coalesced: expected tensors, got none");
  for (const at::Tensor& tensor : tensors) {
    CheckDense(tensor, "allreduce");
    TORCH_CHECK(tensor.scalar_type() == tensors.front().scalar_type(),
                "allreduce: all tensors must have the same type");
  }
  const rondo_op op = OperationOf(opts.reduceOp, tensors.front());
  const Packed packed = InPlace(tensors);
  uint64_t count = 0;
  for (const at::Tensor& tensor : tensors) count += CountOf(tensor) * (tensor.is_complex() ? 2 : 1);
  const rondo_dtype dtype = ElementOf(AsReal(packed.flat, op, "allreduce"));
  void* const data = DataOf(packed.flat);
  return RunCollective(
      {OpType::ALLREDUCE, "all_reduce", tensors, {packed.flat}, packed.back}, opts.timeout,
      [&](const rondo_options* o, rondo_work** work, rondo_error** error) {
        return rondo_all_reduce_async(comm_.get(), data, data, count, dtype, op, o, work, error);
      },
      ScaleOf(opts.reduceOp));
} catch (const std::exception& reason) {
  NoteRefusal("all_reduce", reason);
  throw;
}

WorkPtr RondoBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& opts) try {
  const at::Tensor& tensor = OnlyOf(tensors, "reduce");
  const rondo_op op = OperationOf(opts.reduceOp, tensor);
  const bool root = opts.rootRank == getRank();
  Packed packed = InPlace(tensor);
  const at::Tensor real = AsReal(packed.flat, op, "reduce");
  void* const data = DataOf(packed.flat);
  return RunCollective(
      {OpType::REDUCE, "reduce", tensors, {packed.flat}, root ? packed.back : nullptr}, opts.timeout,
      [&](const rondo_options* o, rondo_work** work, rondo_error** error) {
        return rondo_reduce_async(comm_.get(), data, root ? data : nullptr, CountOf(real), ElementOf(real), op,
                                  static_cast<int32_t>(opts.rootRank), o, work, error);
      },
      ScaleOf(opts.reduceOp));
} catch (const std::exception& reason) {
  NoteRefusal("reduce", reason);
  throw;
}

// ---- collectives with a list of tensors, one for each rank ----

WorkPtr RondoBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                const c10d::AllgatherOptions& opts) try {
  const at::Tensor& input = OnlyOf(inputs, "allgather: input");
  TORCH_CHECK(outputs.size() == 1 && outputs.front().size() == static_cast<size_t>(getSize()),
              "allgather: expected a list of ", getSize(), " outputs");
  Tensors& all = outputs.front();
  for (const at::Tensor& output : all) {
    CheckDense(output, "allgather: output");
    TORCH_CHECK(output.scalar_type() == input.scalar_type(), "allgather: all tensors must have the same type");
  }
  const std::vector<uint64_t> bytes = BytesOfEach(all);
  TORCH_CHECK(bytes[static_cast<size_t>(getRank())] == BytesOf(input),
              "allgather: the input must be as large as this rank's output");
  const at::Tensor flat = Flat(input);
  const Packed room = RoomOf(all);
  void* const to = DataOf(room.flat);
  const bool equal = AreEqual(bytes);
  return RunCollective(
      {OpType::ALLGATHER, "all_gather", all, {flat, room.flat}, room.back, false, inputs}, opts.timeout,
      [&](const rondo_options* o, rondo_work** work, rondo_error** error) {
        return equal
                   ? rondo_all_gather_async(comm_.get(), DataOf(flat), to, BytesOf(flat), RONDO_UINT8, o, work, error)
                   : rondo_all_gather_v_async(comm_.get(), DataOf(flat), to, bytes.data(), RONDO_UINT8, o, work, error);
      });
} catch (const std::exception& reason) {
  NoteRefusal("all_gather", reason);
  throw;
}

WorkPtr RondoBackend::_allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& opts) try {
  CheckDense(output, "_allgather_base: output");
  CheckDense(input, "_allgather_base: input");
  TORCH_CHECK(output.scalar_type() == input.scalar_type(), "_allgather_base: all tensors must have the same type");
  TORCH_CHECK(output.numel() == input.numel() * getSize(), "_allgather_base: the output has ", output.numel(),
              " elements; expected ", getSize(), " times ", input.numel());
  const at::Tensor flat = Flat(input);
  const Packed room = InPlace(output);
  return RunCollective(
      {OpType::_ALLGATHER_BASE, "_all_gather_base", {output}, {flat, room.flat}, room.back, false, {input}},
      opts.timeout, [&](const rondo_options* o, rondo_work** work, rondo_error** error) {
        return rondo_all_gather_async(comm_.get(), DataOf(flat), DataOf(room.flat), BytesOf(flat), RONDO_UINT8, o, work,
                                      error);
      });
} catch (const std::exception& reason) {
  NoteRefusal("all_gather_into_tensor", reason);
  throw;
}

WorkPtr RondoBackend::gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& opts) try {
  const at::Tensor& input = OnlyOf(inputs, "gather: input");
  const bool root = opts.rootRank == getRank();
  TORCH_CHECK(root ? outputs.size() == 1 && outputs.front().size() == static_cast<size_t>(getSize()) : outputs.empty(),
              "gather: expected ", getSize(), " outputs on the root, and none elsewhere");
  if (root) CheckSame(outputs.front(), input, "gather");
  const at::Tensor flat = Flat(input);
  const Packed room = root ? RoomOf(outputs.front()) : Packed{};
  void* const to = root ? DataOf(room.flat) : nullptr;
  Tensors held{flat};
  if (root) held.push_back(room.flat);
  return RunCollective({OpType::GATHER, "gather", root ? outputs.front() : Tensors{}, held, room.back, false, inputs},
                       opts.timeout, [&](const rondo_options* o, rondo_work** work, rondo_error** error) {
                         return rondo_gather_async(comm_.get(), DataOf(flat), to, BytesOf(flat), RONDO_UINT8,
                                                   static_cast<int32_t>(opts.rootRank), o, work, error);
                       });
} catch (const std::exception& reason) {
  NoteRefusal("gather", reason);
  throw;
}

WorkPtr RondoBackend::scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& opts) try {
  const at::Tensor& output = OnlyOf(outputs, "scatter: output");
  const bool root = opts.rootRank == getRank();
  TORCH_CHECK(root ? inputs.size() == 1 && inputs.front().size() == static_cast<size_t>(getSize()) : inputs.empty(),
              "scatter: expected ", getSize(), " inputs on the root, and none elsewhere");
  if (root) CheckSame(inputs.front(), output, "scatter");
  const Packed room = InPlace(output);
  Tensors held{room.flat};
  if (root) held.push_back(Pack(inputs.front()));
  const void* const from = root ? DataOf(held.back()) : nullptr;
  return RunCollective({OpType::SCATTER, "scatter", outputs, held, room.back}, opts.timeout,
                       [&](const rondo_options* o, rondo_work** work, rondo_error** error) {
                         return rondo_scatter_async(comm_.get(), from, DataOf(room.flat), BytesOf(output), RONDO_UINT8,
                                                    static_cast<int32_t>(opts.rootRank), o, work, error);
                       });
} catch (const std::exception& reason) {
  NoteRefusal("scatter", reason);
  throw;
}

WorkPtr RondoBackend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                     const c10d::ReduceScatterOptions& opts) try {
  const at::Tensor& output = OnlyOf(outputs, "reduce_scatter: output");
  TORCH_CHECK(inputs.size() == 1 && inputs.front().size() == static_cast<size_t>(getSize()),
              "reduce_scatter: expected a list of ", getSize(), " inputs");
  const rondo_op op = OperationOf(opts.reduceOp, output);
  std::vector<uint64_t> counts;
  for (const at::Tensor& input : inputs.front()) {
    CheckDense(input, "reduce_scatter: input");
    TORCH_CHECK(input.scalar_type() == output.scalar_type(), "reduce_scatter: all tensors must have the same type");
    counts.push_back(CountOf(input) * (input.is_complex() ? 2 : 1));
  }
  const at::Tensor packed = Pack(inputs.front());
  const Packed room = InPlace(output);
  const at::Tensor real = AsReal(room.flat, op, "reduce_scatter");
  TORCH_CHECK(counts[static_cast<size_t>(getRank())] == CountOf(real),
              "reduce_scatter: the output must have as many elements as this rank's input");
  const bool equal = AreEqual(counts);
  return RunCollective(
      {OpType::REDUCE_SCATTER, "reduce_scatter", outputs, {packed, room.flat}, room.back, false, inputs.front()},
      opts.timeout,
      [&](const rondo_options* o, rondo_work** work, rondo_error** error) {
        return equal ? rondo_reduce_scatter_async(comm_.get(), DataOf(packed), DataOf(room.flat), CountOf(real),
                                                  ElementOf(real), op, o, work, error)
                     : rondo_reduce_scatter_v_async(comm_.get(), DataOf(packed), DataOf(room.flat), counts.data(),
                                                    ElementOf(real), op, o, work, error);
      },
      ScaleOf(opts.reduceOp));
} catch (const std::exception& reason) {
  NoteRefusal("reduce_scatter", reason);
  throw;
}

WorkPtr RondoBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                           const c10d::ReduceScatterOptions& opts) try {
  CheckDense(output, "_reduce_scatter_base: output");
  CheckDense(input, "_reduce_scatter_base: input");
  TORCH_CHECK(output.scalar_type() == input.scalar_type(), "_reduce_scatter_base: all tensors must have the same type");
  TORCH_CHECK(input.numel() == output.numel() * getSize(), "_reduce_scatter_base: the input has ", input.numel(),
              " elements; expected ", getSize(), " times ", output.numel());
  const rondo_op op = OperationOf(opts.reduceOp, output);
  const at::Tensor flat = Flat(input);
  const Packed room = InPlace(output);
  const at::Tensor real = AsReal(room.flat, op, "_reduce_scatter_base");
  return RunCollective(
      {OpType::_REDUCE_SCATTER_BASE, "_reduce_scatter_base", {output}, {flat, room.flat}, room.back, false, {input}},
      opts.timeout,
      [&](const rondo_options* o, rondo_work** work, rondo_error** error) {
        return rondo_reduce_scatter_async(comm_.get(), DataOf(flat), DataOf(room.flat), CountOf(real), ElementOf(real),
                                          op, o, work, error);
      },
      ScaleOf(opts.reduceOp));
} catch (const std::exception& reason) {
  NoteRefusal("reduce_scatter_tensor", reason);
  throw;
}

WorkPtr RondoBackend::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                                    std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& opts) try {
  CheckDense(output, "alltoall_base: output");
  CheckDense(input, "alltoall_base: input");
  TORCH_CHECK(output.scalar_type() == input.scalar_type(), "alltoall_base: all tensors must have the same type");
  const std::vector<uint64_t> from = Splits(input, input_splits, getSize(), "alltoall_base: input");
  const std::vector<uint64_t> to = Splits(output, output_splits, getSize(), "alltoall_base: output");
  const at::Tensor flat = Flat(input);
  const Packed room = InPlace(output);
  // Counts can differ even if this rank passes no splits, because a peer can pass some. Graphs do not support splits,
  // so in a graph the counts of all ranks are equal.
  const bool equal = output_splits.empty() && input_splits.empty() && !output.device().is_cpu() &&
                     SideStream::IsCurrentCaptured(output.device());
  TORCH_CHECK(!equal || from == to, "alltoall_base: without splits, expected equal sizes, got an input of ",
              input.numel(), " elements and an output of ", output.numel());
  return RunCollective({OpType::ALLTOALL_BASE, "all_to_all", {output}, {flat, room.flat}, room.back, false, {input}},
                       opts.timeout, [&](const rondo_options* o, rondo_work** work, rondo_error** error) {
                         return equal ? rondo_all_to_all_async(comm_.get(), DataOf(flat), DataOf(room.flat),
                                                               from.front(), RONDO_UINT8, o, work, error)
                                      : rondo_all_to_all_v_async(comm_.get(), DataOf(flat), from.data(),
                                                                 DataOf(room.flat), to.data(), RONDO_UINT8, o, work,
                                                                 error);
                       });
} catch (const std::exception& reason) {
  NoteRefusal("all_to_all_single", reason);
  throw;
}

WorkPtr RondoBackend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) try {
  TORCH_CHECK(outputs.size() == static_cast<size_t>(getSize()) && inputs.size() == outputs.size(),
              "alltoall: expected ", getSize(), " inputs and outputs");
  for (const Tensors* const tensors : {&outputs, &inputs})
    for (const at::Tensor& tensor : *tensors) {
      CheckDense(tensor, "alltoall");
      TORCH_CHECK(tensor.scalar_type() == inputs.front().scalar_type(),
                  "alltoall: all tensors must have the same type");
    }
  const std::vector<uint64_t> from = BytesOfEach(inputs), to = BytesOfEach(outputs);
  const at::Tensor packed = Pack(inputs);
  const Packed room = RoomOf(outputs);
  return RunCollective({OpType::ALLTOALL, "all_to_all", outputs, {packed, room.flat}, room.back, false, inputs},
                       opts.timeout, [&](const rondo_options* o, rondo_work** work, rondo_error** error) {
                         return rondo_all_to_all_v_async(comm_.get(), DataOf(packed), from.data(), DataOf(room.flat),
                                                         to.data(), RONDO_UINT8, o, work, error);
                       });
} catch (const std::exception& reason) {
  NoteRefusal("all_to_all", reason);
  throw;
}

}  // namespace rondo_torch
