#include "cuda/driver.h"

#include <dlfcn.h>

#include <type_traits>

#include "base/scoped_signal_block.h"

namespace rondo::cuda {
namespace {

// The text of a symbol after macro expansion. <cuda.h> defines macros: cuMemAlloc is cuMemAlloc_v2.
#define RONDO_CUDA_TEXT_OF(symbol) #symbol
#define RONDO_CUDA_TEXT(symbol) RONDO_CUDA_TEXT_OF(symbol)

// A driver may be older than <cuda.h> and lack the version of a function that <cuda.h> names. If an older version does
// the same for Rondo, its name is looked up, too.
void* Find(void* handle, const char* symbol) {
  if (void* const found = dlsym(handle, symbol); found != nullptr) return found;
  if (std::string_view(symbol) == "cuEventElapsedTime_v2") return dlsym(handle, "cuEventElapsedTime");
  return nullptr;
}

std::string_view Words(CUresult (*ask)(CUresult, const char**), CUresult result, std::string_view otherwise) {
  const char* text = nullptr;
  return ask(result, &text) == CUDA_SUCCESS && text != nullptr ? std::string_view(text) : otherwise;
}

ErrorCode CodeOf(CUresult result) {
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY: return ErrorCode::kOutOfMemory;
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_NOT_PERMITTED:
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_PEER_ACCESS_UNSUPPORTED: return ErrorCode::kUnsupported;
    default: return ErrorCode::kDevice;
  }
}

}  // namespace

Status Driver::Check(CUresult result, std::string_view doing) const {
  if (result == CUDA_SUCCESS) [[likely]]
    return {};
  return Fail(CodeOf(result), "{} failed: {} ({})", doing, Words(GetErrorName, result, "an error without a name"),
              Words(GetErrorString, result, fmt::format("number {}", static_cast<int>(result))));
}

Result<Driver> LoadDriver(const std::string& library) {
  const std::string file = library.empty() ? "libcuda.so.1" : library;
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return Fail(ErrorCode::kUnsupported, "no GPU: NVIDIA's driver cannot be loaded ({})", dlerror());
  Driver driver;
  const char* missing = nullptr;
  const auto find = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(Find(handle, symbol));
    if (function == nullptr && missing == nullptr) missing = symbol;
  };
#define RONDO_CUDA_FIND(name) find(driver.name, RONDO_CUDA_TEXT(cu##name));
  RONDO_CUDA_DRIVER_FUNCTIONS(RONDO_CUDA_FIND)
#undef RONDO_CUDA_FIND
  if (missing != nullptr) {
    dlclose(handle);
    return Fail(ErrorCode::kUnsupported,
                "no GPU: {} has no function {}; the driver of CUDA 12.0 (525) or a newer one is needed", file, missing);
  }
  const ScopedSignalBlock block;  // the driver starts threads, which must not receive the program's signals
  const CUresult begun = driver.Init(0);
  if (begun == CUDA_ERROR_NO_DEVICE)
    return Fail(ErrorCode::kUnsupported,
                "no GPU: the driver finds none; check whether CUDA_VISIBLE_DEVICES hides them");
  if (begun != CUDA_SUCCESS) {
    Error error = driver.Check(begun, "no GPU: starting the driver").error();
    return Fail(error.With([](ErrorDetails& d) { d.code = ErrorCode::kUnsupported; }));
  }
  RONDO_TRY(driver.Check(driver.DriverGetVersion(&driver.version), "getting the driver's version"));
  int devices = 0;
  RONDO_TRY(driver.Check(driver.DeviceGetCount(&devices), "counting the GPUs"));
  if (devices == 0)
    return Fail(ErrorCode::kUnsupported,
                "no GPU: the driver finds none; check whether CUDA_VISIBLE_DEVICES hides them");
  return driver;
}

}  // namespace rondo::cuda
