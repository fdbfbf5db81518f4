// How tensors become what Rondo moves: a pointer, a count and a type.
#pragma once

#include <ATen/ATen.h>
#include <rondo.h>

#include <functional>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

namespace rondo_torch {

// Of reductions: the element's own type. Throws for one that Rondo does not reduce.
rondo_dtype ElementOf(const at::Tensor& tensor);
// Of `elements`. The sum of bool is whether any of them is true, and the product whether all are, as in NCCL's backend.
rondo_op OperationOf(const c10d::ReduceOp& op, const at::Tensor& elements);
// Of RONDO_PREMUL_SUM; else 1.
double ScaleOf(const c10d::ReduceOp& op);

// Throws unless it is a dense tensor of the CPU or of a CUDA device; `what` says whose it is: "allreduce: input".
void CheckDense(const at::Tensor& tensor, const char* what);
void CheckSame(const std::vector<at::Tensor>& tensors, const at::Tensor& like, const char* what);
// The only one; throws where there are others.
at::Tensor& OnlyOf(std::vector<at::Tensor>& tensors, const char* what);

// What Rondo reads of a tensor through its address: the tensor itself if its memory holds its elements packed and as
// they are, otherwise a copy. A view may keep apart that its elements are conjugated (x.conj()), negated
// (x.conj().imag) or zero, and then its memory holds others.
at::Tensor Flat(const at::Tensor& tensor);
// Packed one behind the other, in one dimension.
at::Tensor Pack(const std::vector<at::Tensor>& tensors);
at::Tensor RoomFor(const std::vector<at::Tensor>& tensors);
void Unpack(const at::Tensor& packed, const std::vector<at::Tensor>& tensors);

// What Rondo reads or writes in one piece; `back`, where there is one, puts results where they belong.
struct Packed {
  at::Tensor flat;
  std::function<void()> back;
};
// One tensor that is read and written, and several that are.
Packed InPlace(const at::Tensor& tensor);
Packed InPlace(const std::vector<at::Tensor>& tensors);
// Whether they lie packed, in one storage, as they are: then nothing has to be copied.
bool LiePacked(const std::vector<at::Tensor>& tensors);
// Where results for `tensors` are to be written.
Packed RoomOf(const std::vector<at::Tensor>& tensors);
// Complex elements as twice as many real ones; throws where `op` does not allow that.
at::Tensor AsReal(const at::Tensor& tensor, rondo_op op, const char* what);

inline void* DataOf(const at::Tensor& tensor) { return tensor.data_ptr(); }
inline uint64_t CountOf(const at::Tensor& tensor) { return static_cast<uint64_t>(tensor.numel()); }
// What only moves goes as bytes, whatever its type.
inline uint64_t BytesOf(const at::Tensor& tensor) { return CountOf(tensor) * tensor.element_size(); }

}  // namespace rondo_torch
