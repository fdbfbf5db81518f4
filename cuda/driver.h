// NVIDIA's driver, loaded at run time: one library serves hosts with a GPU and without. Nothing of the CUDA toolkit is
// linked; <cuda.h> gives types and numbers.
//
// Thread rule: any thread, once loaded.
#pragma once

#include <cuda.h>

#include <string>
#include <string_view>

#include "base/result.h"

namespace rondo::cuda {

// Functions by their names in <cuda.h> without the prefix; NVIDIA's "CUDA Driver API" says what they do.
#define RONDO_CUDA_DRIVER_FUNCTIONS(X) \
  X(Init)                              \
  X(DriverGetVersion)                  \
  X(GetErrorName)                      \
  X(GetErrorString)                    \
  X(DeviceGetCount)                    \
  X(DeviceGet)                         \
  X(DeviceGetName)                     \
  X(DeviceGetUuid)                     \
  X(DeviceGetPCIBusId)                 \
  X(DeviceGetAttribute)                \
  X(DevicePrimaryCtxRetain)            \
  X(DevicePrimaryCtxRelease)           \
  X(CtxPushCurrent)                    \
  X(CtxPopCurrent)                     \
  X(CtxGetDevice)                      \
  X(CtxGetStreamPriorityRange)         \
  X(CtxSynchronize)                    \
  X(MemAlloc)                          \
  X(MemFree)                           \
  X(MemGetAddressRange)                \
  X(MemGetHandleForAddressRange)       \
  X(MemHostRegister)                   \
  X(MemHostUnregister)                 \
  X(MemHostGetDevicePointer)           \
  X(MemcpyHtoDAsync)                   \
  X(MemcpyDtoHAsync)                   \
  X(MemcpyDtoDAsync)                   \
  X(Memcpy2DAsync)                     \
  X(MemsetD8Async)                     \
  X(PointerGetAttribute)               \
  X(PointerSetAttribute)               \
  X(StreamCreateWithPriority)          \
  X(StreamDestroy)                     \
  X(StreamQuery)                       \
  X(StreamSynchronize)                 \
  X(StreamWaitEvent)                   \
  X(StreamWaitValue64)                 \
  X(StreamGetCtx)                      \
  X(StreamIsCapturing)                 \
  X(StreamBeginCapture)                \
  X(StreamEndCapture)                  \
  X(ThreadExchangeStreamCaptureMode)   \
  X(GraphInstantiate)                  \
  X(GraphLaunch)                       \
  X(GraphDestroy)                      \
  X(GraphExecDestroy)                  \
  X(EventCreate)                       \
  X(EventDestroy)                      \
  X(EventRecord)                       \
  X(EventQuery)                        \
  X(EventSynchronize)                  \
  X(EventElapsedTime)                  \
  X(IpcGetMemHandle)                   \
  X(IpcOpenMemHandle)                  \
  X(IpcCloseMemHandle)                 \
  X(IpcGetEventHandle)                 \
  X(IpcOpenEventHandle)                \
  X(ModuleLoadData)                    \
  X(ModuleUnload)                      \
  X(ModuleGetFunction)                 \
  X(FuncGetAttribute)                  \
  X(LaunchKernel)                      \
  X(LaunchHostFunc)

// How the driver names memory of a GPU.
inline CUdeviceptr AddressOf(const void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

struct Driver {
#define RONDO_CUDA_MEMBER(name) decltype(&cu##name) name = nullptr;
  RONDO_CUDA_DRIVER_FUNCTIONS(RONDO_CUDA_MEMBER)
#undef RONDO_CUDA_MEMBER

  int version = 0;  // of the driver: 13000 is CUDA 13.0

  // Nothing, or what the driver said of `doing` ("copying 4096 bytes to the device"): its name for the error and its
  // words. kOutOfMemory where the device has no room, kUnsupported where it cannot, kDevice else.
  Status Check(CUresult result, std::string_view doing) const;
};

// Loads and initialises it. `library` "" is libcuda.so.1. kUnsupported says why there is none: it could not be loaded,
// lacks something, or finds no GPU. It stays loaded.
Result<Driver> LoadDriver(const std::string& library = "");

}  // namespace rondo::cuda
