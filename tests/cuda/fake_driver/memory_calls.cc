// The driver's functions that concern memory.
#include <fcntl.h>

#include "tests/cuda/fake_driver/state.h"

namespace rondo::cuda::fake {
namespace {

template <class T>
CUresult Answer(void* to, T value) {
  *static_cast<T*>(to) = value;
  return CUDA_SUCCESS;
}

CUresult OfDevice(const Call& call, const Memory& memory, CUdeviceptr address, CUpointer_attribute attribute,
                  void* to) {
  const bool own = memory.opens == 0;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: return Answer(to, reinterpret_cast<CUcontext>(memory.context));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: return Answer<unsigned>(to, CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: return Answer(to, address);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: return Answer<unsigned>(to, memory.sync_memops ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: return Answer<unsigned long long>(to, memory.id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: return Answer<unsigned>(to, 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return Answer<int>(to, memory.context->device);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return Answer<bool>(to, own && call.state.settings.ipc_capable);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: return Answer(to, memory.address);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: return Answer(to, memory.bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED: return Answer<bool>(to, true);
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: return Answer<bool>(to, call.state.settings.dma_buf);
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult OfHost(const Registration& registered, CUdeviceptr address, CUpointer_attribute attribute, void* to) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: return Answer(to, reinterpret_cast<CUcontext>(registered.context));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: return Answer<unsigned>(to, CU_MEMORYTYPE_HOST);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: return Answer(to, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER: return Answer(to, reinterpret_cast<void*>(address));
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: return Answer<unsigned>(to, 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return Answer<int>(to, registered.context->device);
    case CU_POINTER_ATTRIBUTE_MAPPED: return Answer<bool>(to, true);
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace
}  // namespace rondo::cuda::fake

using namespace rondo::cuda::fake;  // NOLINT(google-build-using-namespace): the functions below are the driver's

CUresult cuMemAlloc(CUdeviceptr* address, std::size_t bytes) {
  return Do("MemAlloc", Needs::kContext, [&](Call& call) {
    if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    Context& context = *call.context;
    const std::uint64_t most = call.state.settings.memory_bytes;
    if (context.memory_bytes > most || bytes > most - context.memory_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
    const auto memory = call.state.memory.Allocate(&context, bytes);
    if (memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    context.memory_bytes += bytes;
    *address = memory->address;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemFree(CUdeviceptr address) {
  return Do("MemFree", Needs::kGiveBack, [&](Call& call) {
    if (address == 0) return CUDA_SUCCESS;
    const auto find = [&] {
      auto found = call.state.memory.Find(address);
      return found != nullptr && found->address == address && found->opens == 0 ? found : nullptr;
    };
    auto memory = find();
    if (memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
    // As with a real driver, this waits for all work of the device. So code that blocks a stream must not free memory.
    WaitForAll(call, *memory->context);
    if (find() != memory) return CUDA_ERROR_INVALID_VALUE;
    call.state.memory.Remove(memory);
    memory->context->memory_bytes -= memory->bytes;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemGetAddressRange(CUdeviceptr* base, std::size_t* bytes, CUdeviceptr address) {
  return Do("MemGetAddressRange", Needs::kContext, [&](Call& call) {
    if (const auto memory = call.state.memory.Find(address)) {
      if (base != nullptr) *base = memory->address;
      if (bytes != nullptr) *bytes = memory->bytes;
      return CUDA_SUCCESS;
    }
    const Registration* const registered = call.state.memory.Registered(address);
    if (registered == nullptr) return CUDA_ERROR_NOT_FOUND;
    if (base != nullptr) *base = registered->address;
    if (bytes != nullptr) *bytes = registered->bytes;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemGetHandleForAddressRange(void* handle, CUdeviceptr address, std::size_t bytes, CUmemRangeHandleType type,
                                       unsigned long long) {
  return Do("MemGetHandleForAddressRange", Needs::kContext, [&](Call& call) {
    constexpr std::size_t kPage = 4096;
    if (handle == nullptr || bytes == 0 || address % kPage != 0 || bytes % kPage != 0) return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || !call.state.settings.dma_buf) return CUDA_ERROR_NOT_SUPPORTED;
    for (const auto& [start, memory] : call.state.memory.all()) {
      // The range is whole pages around the allocation. Part of a file cannot be exported here.
      if (start - memory->offset != address || bytes > memory->file.bytes || memory->opens > 0) continue;
      const int descriptor = fcntl(memory->file.descriptor, F_DUPFD_CLOEXEC, 0);
      if (descriptor < 0) return CUDA_ERROR_OPERATING_SYSTEM;
      *static_cast<int*>(handle) = descriptor;
      return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuMemHostRegister(void* memory, std::size_t bytes, unsigned int flags) {
  return Do("MemHostRegister", Needs::kContext, [&](Call& call) {
    constexpr unsigned kKnown = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
    if ((flags & CU_MEMHOSTREGISTER_IOMEMORY) != 0) return CUDA_ERROR_NOT_PERMITTED;
    if ((flags & CU_MEMHOSTREGISTER_READ_ONLY) != 0) return CUDA_ERROR_NOT_SUPPORTED;
    if ((flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
    return call.state.memory.Register(call.context, memory, bytes);
  });
}

CUresult cuMemHostUnregister(void* memory) {
  return Do("MemHostUnregister", Needs::kGiveBack, [&](Call& call) { return call.state.memory.Unregister(memory); });
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr* address, void* memory, unsigned int flags) {
  return Do("MemHostGetDevicePointer", Needs::kContext, [&](Call& call) {
    const auto asked = reinterpret_cast<CUdeviceptr>(memory);
    if (address == nullptr || flags != 0 || call.state.memory.Registered(asked) == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *address = asked;
    return CUDA_SUCCESS;
  });
}

CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  return Do("PointerGetAttribute", Needs::kDriver, [&](Call& call) {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const auto memory = call.state.memory.Find(address)) return OfDevice(call, *memory, address, attribute, value);
    if (const auto* const registered = call.state.memory.Registered(address))
      return OfHost(*registered, address, attribute, value);
    return CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  return Do("PointerSetAttribute", Needs::kDriver, [&](Call& call) {
    const auto memory = call.state.memory.Find(address);
    if (memory == nullptr || value == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
      return CUDA_ERROR_INVALID_VALUE;
    memory->sync_memops = *static_cast<const unsigned*>(value) != 0;
    return CUDA_SUCCESS;
  });
}
