// c10d's operations on tensors whose elements differ from what their memory holds: conjugated and negated views, and
// zeros without memory. torch passes copies of such tensors to backends, and drops the results that backends write to
// the copies. This file passes the tensors themselves to groups of Rondo. Other groups still get torch's copies.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

namespace rondo_torch {
namespace {

using c10::DispatchKey;
using c10::IValue;

at::Tensor Resolved(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  return tensor._is_zerotensor() ? tensor.clone() : tensor.resolve_conj().resolve_neg();
}

// Compares names, because with TORCH_DISTRIBUTED_DEBUG=DETAIL the backend is wrapped in another one.
bool IsRondos(c10d::ProcessGroup& group, c10::DeviceType device) {
#if TORCH_VERSION_MAJOR >= 2
  try {
    return group.getBackend(device)->getBackendName() == "rondo";
  } catch (const c10::Error&) {
    return false;  // the group has no backend for this device; torch itself reports this error
  }
#else
  return group.getBackendName() == "rondo";
#endif
}

bool IsForRondo(const torch::jit::Stack& stack, size_t arguments) {
  c10::optional<c10::DeviceType> device;
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  for (auto value = stack.end() - static_cast<std::ptrdiff_t>(arguments); value != stack.end(); ++value) {
    if (value->isTensor() && value->toTensor().defined()) device = value->toTensor().device().type();
    if (value->isTensorList() && value->toTensorList().size() > 0)
      device = static_cast<at::Tensor>(value->toTensorList().get(0)).device().type();
    if (value->isObject() && group == nullptr && value->type()->str().find("ProcessGroup") != std::string::npos)
      group = value->toCustomClass<c10d::ProcessGroup>();
  }
  return group != nullptr && device.has_value() && IsRondos(*group, *device);
}

template <DispatchKey key>
void Pass(const c10::OperatorHandle& operation, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const size_t arguments = operation.schema().arguments().size();
  if (!IsForRondo(*stack, arguments)) {
    for (auto value = stack->end() - static_cast<std::ptrdiff_t>(arguments); value != stack->end(); ++value) {
      if (value->isTensor()) *value = Resolved(value->toTensor());
      if (!value->isTensorList()) continue;
      c10::List<at::Tensor> resolved;
      for (const at::Tensor& tensor : value->toTensorVector()) resolved.push_back(Resolved(tensor));
      *value = std::move(resolved);
    }
  }
  operation.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, key), stack);
}

template <DispatchKey key>
void Register(torch::Library& library) {
  for (const char* const operation :
       {"allreduce_", "allreduce_coalesced_", "allreduce_sparse_", "broadcast_", "reduce_", "allgather_",
        "_allgather_base_", "allgather_coalesced_", "allgather_into_tensor_coalesced_", "gather_", "scatter_",
        "reduce_scatter_", "_reduce_scatter_base_", "reduce_scatter_tensor_coalesced_", "alltoall_", "alltoall_base_",
        "send", "recv_", "recv_any_source_"})
    library.impl(operation, torch::CppFunction::makeFromBoxedFunction<&Pass<key>>());
}

}  // namespace

TORCH_LIBRARY_IMPL(c10d, Conjugate, library) { Register<DispatchKey::Conjugate>(library); }
TORCH_LIBRARY_IMPL(c10d, Negative, library) { Register<DispatchKey::Negative>(library); }
TORCH_LIBRARY_IMPL(c10d, ZeroTensor, library) { Register<DispatchKey::ZeroTensor>(library); }

}  // namespace rondo_torch
