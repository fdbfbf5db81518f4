// Initialization and version of the driver, devices, and contexts.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "tests/cuda/fake_driver/state.h"

namespace rondo::cuda::fake {
namespace {

bool Has(const Call& call, CUdevice device) {
  return device >= 0 && static_cast<std::size_t>(device) < call.state.settings.devices.size();
}

int Attribute(const Call& call, CUdevice_attribute attribute, int installed) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return 9;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return 0;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return 4;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: return 2048;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: return 2147483647;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: return 32;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: return 2;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: return 0x10 + installed;
    case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED: return call.state.settings.dma_buf ? 1 : 0;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE: return call.state.settings.compute_mode;
    case CU_DEVICE_ATTRIBUTE_MPS_ENABLED: return call.state.settings.mps ? 1 : 0;
    case CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT: return call.state.settings.display ? 1 : 0;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED: return 1;
    default: return 0;
  }
}

CUresult Text(char* to, int room, const char* text) {
  if (to == nullptr || room <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::snprintf(to, static_cast<std::size_t>(room), "%s", text);
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace rondo::cuda::fake

using namespace rondo::cuda::fake;  // NOLINT(google-build-using-namespace): the functions below are the driver's

CUresult cuInit(unsigned int flags) {
  return Do("Init", Needs::kNothing, [&](Call& call) {
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    std::this_thread::sleep_for(std::chrono::milliseconds(call.state.settings.init_ms));
    if (call.state.settings.devices.empty()) return CUDA_ERROR_NO_DEVICE;
    // As with a real driver, a child by fork() cannot use the driver that its parent initialized.
    if (call.state.initialized_in != 0 && call.state.initialized_in != getpid()) return CUDA_ERROR_NOT_INITIALIZED;
    // As with a real driver, the process has a driver's thread from now on, which receives the signals that the calling
    // thread does not block.
    if (call.state.initialized_in == 0)
      std::thread([] { std::this_thread::sleep_for(std::chrono::years(1)); }).detach();
    call.state.initialized_in = getpid();
    return CUDA_SUCCESS;
  });
}

CUresult cuDriverGetVersion(int* version) {
  return Do("DriverGetVersion", Needs::kNothing, [&](Call& call) {
    if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *version = call.state.settings.version;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetCount(int* count) {
  return Do("DeviceGetCount", Needs::kDriver, [&](Call& call) {
    if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *count = static_cast<int>(call.state.settings.devices.size());
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return Do("DeviceGet", Needs::kDriver, [&](Call& call) {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!Has(call, ordinal)) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetName(char* name, int room, CUdevice device) {
  return Do("DeviceGetName", Needs::kDriver,
            [&](Call& call) { return Has(call, device) ? Text(name, room, "Fake GPU") : CUDA_ERROR_INVALID_DEVICE; });
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  return Do("DeviceGetUuid", Needs::kDriver, [&](Call& call) {
    if (!Has(call, device)) return CUDA_ERROR_INVALID_DEVICE;
    if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
    // The same in every process: processes compare it to find that they use one device.
    std::memcpy(uuid->bytes, "RondoFakeGPU0000", sizeof uuid->bytes);
    uuid->bytes[15] = static_cast<char>('A' + call.state.settings.devices[static_cast<std::size_t>(device)]);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetPCIBusId(char* id, int room, CUdevice device) {
  return Do("DeviceGetPCIBusId", Needs::kDriver, [&](Call& call) {
    if (!Has(call, device)) return CUDA_ERROR_INVALID_DEVICE;
    char text[32];
    std::snprintf(text, sizeof text, "0000:%02X:00.0",
                  0x10u + static_cast<unsigned>(call.state.settings.devices[static_cast<std::size_t>(device)]));
    return Text(id, room, text);
  });
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  return Do("DeviceGetAttribute", Needs::kDriver, [&](Call& call) {
    if (!Has(call, device)) return CUDA_ERROR_INVALID_DEVICE;
    if (value == nullptr || attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
    *value = Attribute(call, attribute, call.state.settings.devices[static_cast<std::size_t>(device)]);
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return Do("DevicePrimaryCtxRetain", Needs::kDriver, [&](Call& call) {
    if (!Has(call, device)) return CUDA_ERROR_INVALID_DEVICE;
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Context& retained = call.state.contexts[device];
    ++retained.retains;
    *context = reinterpret_cast<CUcontext>(&retained);
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  return Do("DevicePrimaryCtxRelease", Needs::kDriver, [&](Call& call) {
    if (!Has(call, device)) return CUDA_ERROR_INVALID_DEVICE;
    Context& context = call.state.contexts[device];
    if (context.retains == 0) return CUDA_ERROR_INVALID_CONTEXT;
    // Objects that are left in the context stay, so that a test sees them; a real driver destroys them.
    if (--context.retains == 0) context.error = CUDA_SUCCESS;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxPushCurrent(CUcontext handle) {
  return Do("CtxPushCurrent", Needs::kDriver, [&](Call& call) {
    for (Context& context : call.state.contexts) {
      if (reinterpret_cast<CUcontext>(&context) != handle || context.retains == 0) continue;
      if (ContextsOfThread().full()) return CUDA_ERROR_OUT_OF_MEMORY;
      ContextsOfThread().push_back(&context);
      return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_CONTEXT;
  });
}

CUresult cuCtxPopCurrent(CUcontext* context) {
  return Do("CtxPopCurrent", Needs::kDriver, [&](Call&) {
    auto& contexts = ContextsOfThread();
    if (contexts.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    if (context != nullptr) *context = reinterpret_cast<CUcontext>(contexts.back());
    contexts.pop_back();
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetDevice(CUdevice* device) {
  return Do("CtxGetDevice", Needs::kContext, [&](Call& call) {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *device = call.context->device;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return Do("CtxGetStreamPriorityRange", Needs::kContext, [&](Call&) {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = -5;
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSynchronize() {
  return Do("CtxSynchronize", Needs::kContext, [&](Call& call) {
    WaitForAll(call, *call.context);
    return CUDA_SUCCESS;
  });
}
