#include "tensors.h"

#include <c10/util/Exception.h>
#include <torch/version.h>

namespace rondo_torch {

rondo_dtype ElementOf(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kChar: return RONDO_INT8;
    case at::kByte: return RONDO_UINT8;
    case at::kInt: return RONDO_INT32;
    case at::kLong: return RONDO_INT64;
    case at::kHalf: return RONDO_FLOAT16;
    case at::kBFloat16: return RONDO_BFLOAT16;
    case at::kFloat: return RONDO_FLOAT32;
    case at::kDouble: return RONDO_FLOAT64;
    case at::kBool: return RONDO_BOOL;
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 3)
    case at::kUInt32: return RONDO_UINT32;
    case at::kUInt64: return RONDO_UINT64;
#endif
    default: C10_THROW_ERROR(TypeError, c10::str("rondo does not reduce elements of type ", tensor.scalar_type()));
  }
}

rondo_op OperationOf(const c10d::ReduceOp& op, const at::Tensor& elements) {
  const bool is_bool = elements.scalar_type() == at::kBool;
  switch (static_cast<c10d::ReduceOp::RedOpType>(op)) {
    case c10d::ReduceOp::SUM: return is_bool ? RONDO_BOR : RONDO_SUM;
    case c10d::ReduceOp::AVG: return RONDO_AVG;
    case c10d::ReduceOp::PRODUCT: return is_bool ? RONDO_BAND : RONDO_PROD;
    case c10d::ReduceOp::MIN: return RONDO_MIN;
    case c10d::ReduceOp::MAX: return RONDO_MAX;
    case c10d::ReduceOp::BAND: return RONDO_BAND;
    case c10d::ReduceOp::BOR: return RONDO_BOR;
    case c10d::ReduceOp::BXOR: return RONDO_BXOR;
    case c10d::ReduceOp::PREMUL_SUM: return RONDO_PREMUL_SUM;
    default: C10_THROW_ERROR(ValueError, c10::str("rondo does not support reduction ", static_cast<int>(op.op_)));
  }
}

double ScaleOf(const c10d::ReduceOp& op) {
  if (op.op_ != c10d::ReduceOp::PREMUL_SUM) return 1;
  const auto* const factors = static_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  TORCH_CHECK_VALUE(factors != nullptr, "PREMUL_SUM: expected a factor, got none");
#if TORCH_VERSION_MAJOR >= 2
  const at::Tensor& factor = factors->tensor_factor;
#else
  TORCH_CHECK_VALUE(factors->tensor_factors.size() <= 1, "PREMUL_SUM: expected one factor");
  const at::Tensor factor = factors->tensor_factors.empty() ? at::Tensor() : factors->tensor_factors.front();
#endif
  if (!factor.defined()) return factors->double_factor;
  TORCH_CHECK_VALUE(factor.numel() == 1, "PREMUL_SUM: expected one factor");
  return factor.item<double>();
}

void CheckDense(const at::Tensor& tensor, const char* what) {
  TORCH_CHECK(tensor.layout() == at::kStrided, what, ": expected a dense tensor, got ", tensor.layout());
  TORCH_CHECK(tensor.device().is_cpu() || tensor.device().is_cuda(), what,
              ": expected a tensor on the CPU or on a CUDA device, got one on ", tensor.device());
}

void CheckSame(const std::vector<at::Tensor>& tensors, const at::Tensor& like, const char* what) {
  for (const at::Tensor& tensor : tensors) {
    CheckDense(tensor, what);
    TORCH_CHECK(tensor.scalar_type() == like.scalar_type(), what, ": all tensors must have the same type, got ",
                tensor.scalar_type(), " and ", like.scalar_type());
    TORCH_CHECK(tensor.sizes() == like.sizes(), what, ": all tensors must have the same size, got ", tensor.sizes(),
                " and ", like.sizes());
  }
}

at::Tensor& OnlyOf(std::vector<at::Tensor>& tensors, const char* what) {
  TORCH_CHECK(tensors.size() == 1, what, ": expected one tensor, got ", tensors.size());
  CheckDense(tensors.front(), what);
  return tensors.front();
}

at::Tensor RoomFor(const std::vector<at::Tensor>& tensors) {
  int64_t count = 0;
  for (const at::Tensor& tensor : tensors) count += tensor.numel();
  return at::empty({count}, tensors.front().options().memory_format(c10::nullopt));
}

at::Tensor Pack(const std::vector<at::Tensor>& tensors) {
  at::Tensor packed = RoomFor(tensors);
  int64_t at = 0;
  for (const at::Tensor& tensor : tensors) {
    packed.narrow(0, at, tensor.numel()).copy_(tensor.reshape({-1}));
    at += tensor.numel();
  }
  return packed;
}

void Unpack(const at::Tensor& packed, const std::vector<at::Tensor>& tensors) {
  int64_t at = 0;
  for (const at::Tensor& tensor : tensors) {
    tensor.copy_(packed.narrow(0, at, tensor.numel()).view(tensor.sizes()));
    at += tensor.numel();
  }
}

static bool IsFlat(const at::Tensor& tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg() && !tensor._is_zerotensor();
}

at::Tensor Flat(const at::Tensor& tensor) {
  return IsFlat(tensor) ? tensor : tensor.clone(at::MemoryFormat::Contiguous);
}

// Throws for a tensor of zeros without memory (torch's zero tensor), because results could not be copied into it.
// Called before anything is sent.
static void CheckHasMemory(const at::Tensor& tensor) {
  TORCH_CHECK(!tensor._is_zerotensor(),
              "rondo: a tensor for results has no memory, because it only represents zeros: pass a copy that has "
              "memory, made by clone()");
}

Packed InPlace(const at::Tensor& tensor) {
  if (IsFlat(tensor)) return {tensor, nullptr};
  CheckHasMemory(tensor);
  const at::Tensor flat = Flat(tensor);
  return {flat, [flat, tensor] { tensor.copy_(flat); }};
}

bool LiePacked(const std::vector<at::Tensor>& tensors) {
  if (!IsFlat(tensors.front())) return false;
  const auto* at = static_cast<const char*>(tensors.front().data_ptr());
  for (const at::Tensor& tensor : tensors) {
    // Two allocations of a GPU may be adjacent but are not one allocation. A copy must not cross the border between
    // them, and exporting one to peers does not export the other.
    if (!IsFlat(tensor) || tensor.data_ptr() != at || !tensor.is_alias_of(tensors.front())) return false;
    at += BytesOf(tensor);
  }
  return true;
}

Packed InPlace(const std::vector<at::Tensor>& tensors) {
  if (LiePacked(tensors)) return {tensors.front(), nullptr};
  for (const at::Tensor& tensor : tensors) CheckHasMemory(tensor);
  const at::Tensor flat = Pack(tensors);
  return {flat, [flat, tensors] { Unpack(flat, tensors); }};
}

Packed RoomOf(const std::vector<at::Tensor>& tensors) {
  if (LiePacked(tensors)) return {tensors.front(), nullptr};
  for (const at::Tensor& tensor : tensors) CheckHasMemory(tensor);
  const at::Tensor room = RoomFor(tensors);
  return {room, [room, tensors] { Unpack(room, tensors); }};
}

at::Tensor AsReal(const at::Tensor& tensor, rondo_op op, const char* what) {
  if (!tensor.is_complex()) return tensor;
  TORCH_CHECK(op == RONDO_SUM || op == RONDO_AVG || op == RONDO_PREMUL_SUM, what,
              ": complex elements support only SUM, AVG and PREMUL_SUM");
  return at::view_as_real(tensor);
}

}  // namespace rondo_torch
