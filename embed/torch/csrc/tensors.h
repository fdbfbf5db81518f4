// How tensors become what Rondo moves: a pointer, a count and a type.
#pragma once

#include <ATen/ATen.h>
#include <rondo.h>

#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

namespace rondo_torch {

// Of reductions: the element's own type. Throws for one that Rondo does not reduce.
rondo_dtype ElementOf(const at::Tensor& tensor);
rondo_op OperationOf(const c10d::ReduceOp& op);
// Of RONDO_PREMUL_SUM; else 1.
double ScaleOf(const c10d::ReduceOp& op);

// Throws unless it is a dense tensor in the host's memory; `what` says whose it is: "allreduce: input".
void CheckDense(const at::Tensor& tensor, const char* what);
void CheckSame(const std::vector<at::Tensor>& tensors, const at::Tensor& like, const char* what);
// The only one; throws where there are others.
at::Tensor& OnlyOf(std::vector<at::Tensor>& tensors, const char* what);

// Packed one behind the other, in one dimension.
at::Tensor Pack(const std::vector<at::Tensor>& tensors);
at::Tensor RoomFor(const std::vector<at::Tensor>& tensors);
void Unpack(const at::Tensor& packed, const std::vector<at::Tensor>& tensors);

inline uint64_t CountOf(const at::Tensor& tensor) { return static_cast<uint64_t>(tensor.numel()); }
// What only moves goes as bytes, whatever its type.
inline uint64_t BytesOf(const at::Tensor& tensor) { return CountOf(tensor) * tensor.element_size(); }

}  // namespace rondo_torch
