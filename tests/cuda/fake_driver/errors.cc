// The names and texts of CUresult values.
#include <cuda.h>

#include "tests/cuda/fake_driver/state.h"

namespace rondo::cuda::fake {
namespace {

struct Words {
  CUresult result;
  const char* name;
  const char* text;
};

#define RONDO_WORDS(name, text) \
  { name, #name, text }
constexpr Words kWords[] = {
    RONDO_WORDS(CUDA_SUCCESS, "no error"),
    RONDO_WORDS(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    RONDO_WORDS(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    RONDO_WORDS(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    RONDO_WORDS(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    RONDO_WORDS(CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA-capable device(s) is/are busy or unavailable"),
    RONDO_WORDS(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    RONDO_WORDS(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    RONDO_WORDS(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    RONDO_WORDS(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    RONDO_WORDS(CUDA_ERROR_MAP_FAILED, "mapping of buffer object failed"),
    RONDO_WORDS(CUDA_ERROR_ALREADY_MAPPED, "resource already mapped"),
    RONDO_WORDS(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
    RONDO_WORDS(CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable ECC error encountered"),
    RONDO_WORDS(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "peer access is not supported between these two devices"),
    RONDO_WORDS(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "the provided PTX was compiled with an unsupported toolchain."),
    RONDO_WORDS(CUDA_ERROR_OPERATING_SYSTEM, "OS call failed or operation not supported on this OS"),
    RONDO_WORDS(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    RONDO_WORDS(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    RONDO_WORDS(CUDA_ERROR_NOT_READY, "device not ready"),
    RONDO_WORDS(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    RONDO_WORDS(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
    RONDO_WORDS(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    RONDO_WORDS(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
                "part or all of the requested memory range is already mapped"),
    RONDO_WORDS(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "pointer does not correspond to a registered memory region"),
    RONDO_WORDS(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address"),
    RONDO_WORDS(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    RONDO_WORDS(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    RONDO_WORDS(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    RONDO_WORDS(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "system has unsupported display driver / cuda driver combination"),
    RONDO_WORDS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"),
    RONDO_WORDS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture"),
    RONDO_WORDS(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                "operation would make the legacy stream depend on a capturing blocking stream"),
    RONDO_WORDS(CUDA_ERROR_UNKNOWN, "unknown error"),
};
#undef RONDO_WORDS

CUresult Tell(const char* function, CUresult of, const char** to, const char* Words::*which) {
  return Do(function, Needs::kNothing, [&](Call&) {
    if (to == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *to = nullptr;
    for (const Words& words : kWords)
      if (words.result == of) *to = words.*which;
    return *to == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  });
}

}  // namespace
}  // namespace rondo::cuda::fake

using namespace rondo::cuda::fake;  // NOLINT(google-build-using-namespace): the functions below are the driver's

CUresult cuGetErrorName(CUresult result, const char** name) { return Tell("GetErrorName", result, name, &Words::name); }

CUresult cuGetErrorString(CUresult result, const char** text) {
  return Tell("GetErrorString", result, text, &Words::text);
}
