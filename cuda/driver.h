// NVIDIA's driver. It is loaded at run time, so that one build works on hosts with and without a GPU. No library of the
// CUDA toolkit is linked; <cuda.h> only provides types and constants.
//
// Thread rule: any thread, after LoadDriver has returned.
#pragma once

#include <cuda.h>

#include <string>
#include <string_view>

#include "base/result.h"

namespace rondo::cuda {

// The driver's functions, by their names in <cuda.h> without the prefix `cu`; see NVIDIA's "CUDA Driver API".
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

// Converts a pointer to the type that the driver uses for device addresses.
inline CUdeviceptr AddressOf(const void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

struct Driver {
#define RONDO_CUDA_MEMBER(name) decltype(&cu##name) name = nullptr;
  RONDO_CUDA_DRIVER_FUNCTIONS(RONDO_CUDA_MEMBER)
#undef RONDO_CUDA_MEMBER

  int version = 0;  // CUDA version of the driver: 13000 is CUDA 13.0

  // Turns a driver result into a Status. An error's message contains `doing` ("copying 4096 bytes to the device") and
  // the driver's name and text for the error. kOutOfMemory: the device has no memory left. kUnsupported: the device or
  // the driver does not support the call. kDevice: every other error.
  Status Check(CUresult result, std::string_view doing) const;
};

// Loads and initializes the driver, which then stays loaded. If `library` is "", it is libcuda.so.1. kUnsupported:
// there is no usable driver, and the message says why (it could not be loaded, lacks a function, or finds no GPU).
Result<Driver> LoadDriver(const std::string& library = "");

}  // namespace rondo::cuda
