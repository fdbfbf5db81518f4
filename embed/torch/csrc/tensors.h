// Converts tensors to the arguments of Rondo's functions: a pointer, a count and a type.
#pragma once

#include <ATen/ATen.h>
#include <rondo.h>

#include <functional>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

namespace rondo_torch {

// The element type for reductions. Throws if Rondo does not reduce that type.
rondo_dtype ElementOf(const at::Tensor& tensor);
// The operation for `elements`. As in torch's NCCL backend, the sum of bools is true if any is true, and their product
// is true if all are.
rondo_op OperationOf(const c10d::ReduceOp& op, const at::Tensor& elements);
// The scale of RONDO_PREMUL_SUM; 1 for other operations.
double ScaleOf(const c10d::ReduceOp& op);

// Throws unless the tensor is dense and on the CPU or a CUDA device. `what` names the tensor in the error: "allreduce:
// input".
void CheckDense(const at::Tensor& tensor, const char* what);
void CheckSame(const std::vector<at::Tensor>& tensors, const at::Tensor& like, const char* what);
// Returns the only tensor; throws if the list does not have exactly one.
at::Tensor& OnlyOf(std::vector<at::Tensor>& tensors, const char* what);

// The tensor that Rondo reads through its address. It is the tensor itself if its memory holds its elements packed and
// unchanged, otherwise a copy. Some views only record that their elements are conjugated (x.conj()), negated
// (x.conj().imag) or zero. The memory of such a view holds other values, so a copy is needed.
at::Tensor Flat(const at::Tensor& tensor);
// Returns a new one-dimensional tensor that contains the tensors one after the other.
at::Tensor Pack(const std::vector<at::Tensor>& tensors);
at::Tensor RoomFor(const std::vector<at::Tensor>& tensors);
void Unpack(const at::Tensor& packed, const std::vector<at::Tensor>& tensors);

// Contiguous memory that Rondo reads or writes. `back`, if it is set, copies results to their destination.
struct Packed {
  at::Tensor flat;
  std::function<void()> back;
};
// Packs one tensor, or several, that Rondo both reads and writes.
Packed InPlace(const at::Tensor& tensor);
Packed InPlace(const std::vector<at::Tensor>& tensors);
// Whether the tensors are packed in one storage with unchanged elements, so that no copy is necessary.
bool LiePacked(const std::vector<at::Tensor>& tensors);
// Memory for the results: `tensors` themselves if they are packed. Otherwise new memory, which `back` copies to
// `tensors`.
Packed RoomOf(const std::vector<at::Tensor>& tensors);
// Returns complex elements as twice as many real elements. Throws if `op` does not allow that.
at::Tensor AsReal(const at::Tensor& tensor, rondo_op op, const char* what);

inline void* DataOf(const at::Tensor& tensor) { return tensor.data_ptr(); }
inline uint64_t CountOf(const at::Tensor& tensor) { return static_cast<uint64_t>(tensor.numel()); }
// The number of bytes of the tensor. Operations that only move elements treat the elements as bytes, whatever their
// type.
inline uint64_t BytesOf(const at::Tensor& tensor) { return CountOf(tensor) * tensor.element_size(); }

}  // namespace rondo_torch
