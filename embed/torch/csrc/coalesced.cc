// Collectives on several tensors of each rank, each implemented as one collective of Rondo.
#include <utility>

#include "backend.h"
#include "tensors.h"

namespace rondo_torch {

using c10d::OpType;

WorkPtr RondoBackend::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& opts) try {
  TORCH_CHECK(!inputs.empty() && outputs.size() == static_cast<size_t>(getSize()), "allgather_coalesced: expected ",
              getSize(), " lists of outputs");
  Tensors all;
  for (const Tensors& of_rank : outputs) {
    TORCH_CHECK(of_rank.size() == inputs.size(),
                "allgather_coalesced: expected as many outputs for each rank as inputs");
    for (size_t i = 0; i < inputs.size(); ++i) {
      CheckDense(of_rank[i], "allgather_coalesced: output");
      TORCH_CHECK(of_rank[i].sizes() == inputs[i].sizes() && of_rank[i].scalar_type() == inputs[0].scalar_type(),
                  "allgather_coalesced: outputs must have the shapes and types of the inputs");
      all.push_back(of_rank[i]);
    }
  }
  const at::Tensor flat = Pack(inputs);
  const Packed room = RoomOf(all);
  return RunCollective({OpType::ALLGATHER_COALESCED, "all_gather", all, {flat, room.flat}, room.back, false, inputs},
                       opts.timeout, [&](const rondo_options* o, rondo_work** work, rondo_error** error) {
                         return rondo_all_gather_async(comm_.get(), DataOf(flat), DataOf(room.flat), BytesOf(flat),
                                                       RONDO_UINT8, o, work, error);
                       });
} catch (const std::exception& reason) {
  NoteRefusal("all_gather", reason);
  throw;
}

// The part of rank `rank` in each of `wholes`. Each of these tensors holds one part for each of the `size` ranks, in
// rank order. A part has the shape of the tensor at the same index of `parts`.
static Tensors PartsOf(const Tensors& wholes, const Tensors& parts, int rank, int size, const char* what) {
  TORCH_CHECK(wholes.size() == parts.size(), what, ": expected as many outputs as inputs");
  Tensors of_rank;
  for (size_t i = 0; i < parts.size(); ++i) {
    CheckDense(wholes[i], what);
    CheckDense(parts[i], what);
    TORCH_CHECK(wholes[i].scalar_type() == parts[0].scalar_type() && parts[i].scalar_type() == parts[0].scalar_type(),
                what, ": all tensors must have the same type");
    TORCH_CHECK(wholes[i].numel() == parts[i].numel() * size, what, ": the tensor with the parts of all ranks has ",
                wholes[i].numel(), " elements; expected ", size, " times ", parts[i].numel());
    TORCH_CHECK(wholes[i].is_contiguous(), what, ": the tensor with the parts of all ranks must be contiguous");
    of_rank.push_back(wholes[i].view({size, parts[i].numel()}).select(0, rank).view(parts[i].sizes()));
  }
  return of_rank;
}

WorkPtr RondoBackend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                      const c10d::AllgatherOptions& opts) try {
  std::vector<Tensors> of_ranks;
  for (int rank = 0; rank < getSize(); ++rank)
    of_ranks.push_back(PartsOf(outputs, inputs, rank, getSize(), "allgather_into_tensor_coalesced"));
  return allgather_coalesced(of_ranks, inputs, opts);
} catch (const std::exception& reason) {
  NoteRefusal("all_gather_into_tensor", reason);
  throw;
}

WorkPtr RondoBackend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                      const c10d::ReduceScatterOptions& opts) try {
  TORCH_CHECK(!outputs.empty(), "reduce_scatter_tensor_coalesced: expected tensors, got none");
  Tensors all;
  for (int rank = 0; rank < getSize(); ++rank)
    for (const at::Tensor& part : PartsOf(inputs, outputs, rank, getSize(), "reduce_scatter_tensor_coalesced"))
      all.push_back(part);
  const rondo_op op = OperationOf(opts.reduceOp, outputs.front());
  const at::Tensor packed = Pack(all);
  const Packed room = RoomOf(outputs);
  uint64_t count = 0;
  for (const at::Tensor& output : outputs) count += CountOf(output) * (output.is_complex() ? 2 : 1);
  const rondo_dtype dtype = ElementOf(AsReal(packed, op, "reduce_scatter_tensor_coalesced"));
  return RunCollective(
      {OpType::REDUCE_SCATTER, "reduce_scatter", outputs, {packed, room.flat}, room.back, false, inputs}, opts.timeout,
      [&](const rondo_options* o, rondo_work** work, rondo_error** error) {
        return rondo_reduce_scatter_async(comm_.get(), DataOf(packed), DataOf(room.flat), count, dtype, op, o, work,
                                          error);
      },
      ScaleOf(opts.reduceOp));
} catch (const std::exception& reason) {
  NoteRefusal("reduce_scatter_tensor", reason);
  throw;
}

}  // namespace rondo_torch
