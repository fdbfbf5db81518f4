// Modules, functions, and launches of kernels.
#include <cstring>
#include <utility>
#include <vector>

#include "tests/cuda/fake_driver/state.h"

namespace rondo::cuda::fake {
namespace {

constexpr unsigned kMaxThreadsOfBlock = 1024;
constexpr unsigned kMaxSharedBytes = 48 << 10;

struct Launch {
  const Kernel* kernel = nullptr;
  Context* context = nullptr;
  std::vector<std::byte> parameter;
  std::uint64_t threads = 0;
};

// Runs a launched kernel. False: the kernel touched memory that its device must not touch, or a test wants the kernel
// to fault. A graph runs the same launch more than once.
bool Run(State& state, const Launch& launch, std::uint64_t salt) {
  {
    const std::unique_lock lock(state.mutex);
    if (state.kernel_faults_in > 0 && --state.kernel_faults_in == 0) {
      state.SayFault("a kernel");
      return false;
    }
  }
  std::vector<std::shared_ptr<Memory>> used;
  const auto translate = [&](const void* address, std::size_t bytes) -> std::byte* {
    const std::unique_lock lock(state.mutex);
    auto place = state.memory.Resolve(reinterpret_cast<CUdeviceptr>(address), bytes);
    if (!place) return nullptr;
    // A kernel can reach memory of another device only if this process opened the memory, because the fake driver has
    // no call that enables access between devices.
    if (place->memory != nullptr && place->memory->context != launch.context) return nullptr;
    if (place->memory != nullptr) used.push_back(std::move(place->memory));
    return place->at;
  };
  std::vector<std::byte> parameter = launch.parameter;
  if (!launch.kernel->prepare(parameter.data(), translate)) return false;
  for (std::uint64_t i = 0; i < launch.threads; ++i) {
    if (i % 64 == 63) std::this_thread::yield();
    launch.kernel->run(parameter.data(), (salt & 1) != 0 ? launch.threads - 1 - i : i, launch.threads);
  }
  const std::unique_lock lock(state.mutex);
  ++state.kernels;
  return true;
}

// Loads the function as drivers with lazy loading do: at the first launch, after all pending work has ended. Meanwhile
// all other calls on the context wait. (A captured function is loaded when the graph is instantiated.)
void Load(Call& call, Function& function) {
  if (!function.loaded) {
    call.context->loading = true;
    WaitForAll(call, *call.context);
    call.context->loading = false;
    call.state.finished.notify_all();
  }
  function.loaded = true;
}

Function* Find(const Call& call, CUfunction handle) {
  const auto found = call.state.functions.find(handle);
  return found == call.state.functions.end() ? nullptr : found->second.get();
}

}  // namespace
}  // namespace rondo::cuda::fake

using namespace rondo::cuda::fake;  // NOLINT(google-build-using-namespace): the functions below are the driver's

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return Do("ModuleLoadData", Needs::kContext, [&](Call& call) {
    if (module == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto made = std::make_unique<Module>();
    made->context = call.context;
    *module = reinterpret_cast<CUmodule>(made.get());
    call.state.modules[*module] = std::move(made);
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleUnload(CUmodule handle) {
  return Do("ModuleUnload", Needs::kGiveBack, [&](Call& call) {
    const auto found = call.state.modules.find(handle);
    if (found == call.state.modules.end()) return CUDA_ERROR_INVALID_HANDLE;
    std::erase_if(call.state.functions,
                  [&](const auto& function) { return function.second->module == found->second.get(); });
    call.state.modules.erase(found);
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule handle, const char* name) {
  return Do("ModuleGetFunction", Needs::kContext, [&](Call& call) {
    const auto module = call.state.modules.find(handle);
    if (module == call.state.modules.end()) return CUDA_ERROR_INVALID_HANDLE;
    if (function == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const Kernel* const kernel = FindKernel(name);
    if (kernel == nullptr) return CUDA_ERROR_NOT_FOUND;
    for (const auto& [known, one] : call.state.functions) {
      if (one->module != module->second.get() || one->kernel != kernel) continue;
      *function = known;
      return CUDA_SUCCESS;
    }
    auto made = std::make_unique<Function>();
    made->module = module->second.get();
    made->kernel = kernel;
    *function = reinterpret_cast<CUfunction>(made.get());
    call.state.functions[*function] = std::move(made);
    return CUDA_SUCCESS;
  });
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction handle) {
  return Do("FuncGetAttribute", Needs::kContext, [&](Call& call) {
    Function* const function = Find(call, handle);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (value == nullptr || attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
    function->loaded = true;
    switch (attribute) {
      case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = kMaxThreadsOfBlock; break;
      case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = 32; break;
      case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = 90; break;
      case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = kMaxSharedBytes; break;
      default: *value = 0;
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuLaunchKernel(CUfunction handle, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                        unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,
                        CUstream stream_handle, void** parameters, void** extra) {
  return Do("LaunchKernel", Needs::kContext, [&](Call& call) {
    Function* const function = Find(call, handle);
    const auto stream = FindStream(call, stream_handle);
    if (function == nullptr || stream == nullptr || stream->context != call.context ||
        function->module->context != call.context)
      return CUDA_ERROR_INVALID_HANDLE;
    const std::uint64_t blocks = std::uint64_t{grid_x} * grid_y * grid_z;
    const std::uint64_t block = std::uint64_t{block_x} * block_y * block_z;
    if (blocks == 0 || block == 0 || block > kMaxThreadsOfBlock || grid_y > 65535 || grid_z > 65535 ||
        shared_bytes > kMaxSharedBytes || parameters == nullptr || parameters[0] == nullptr || extra != nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    if (stream->captured == nullptr) Load(call, *function);
    const auto* const first = static_cast<const std::byte*>(parameters[0]);
    auto launch = std::make_shared<Launch>();
    launch->kernel = function->kernel;
    launch->context = call.context;
    launch->parameter.assign(first, first + function->kernel->parameter_bytes);
    launch->threads = blocks * block;
    State& state = call.state;
    Work work;
    work.repeats = true;
    work.run = [&state, launch](std::uint64_t salt) { return Run(state, *launch, salt); };
    return Enqueue(stream, std::move(work));
  });
}
