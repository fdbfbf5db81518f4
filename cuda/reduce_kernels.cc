#include "cuda/reduce_kernels.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/check.h"
#include "cuda/kernels/image.h"

namespace rondo::cuda {
namespace {

constexpr unsigned kThreadsPerBlock = 512;  // must equal the kernels' __launch_bounds__
constexpr unsigned kBlocksPerProcessor = 4;
// Bytes that a thread processes at once: four vectors of 16 bytes.
constexpr std::uint64_t kBytesPerThread = 64;

constexpr std::size_t kOps = 16, kTypes = 16;
static_assert(kAllReduceOps.size() < kOps && kAllDataTypes.size() < kTypes);
std::size_t PlaceOf(DataType type, ReduceOp op) {
  return static_cast<std::size_t>(type) * kOps + static_cast<std::size_t>(op);
}

// If the driver is too old for the kernels, adds the CUDA versions of both to the error. A driver loads code only from
// compilers of the driver's major version or an older one.
Error BesideVersions(const Error& error, int driver) {
  if (driver / 1000 >= CUDA_VERSION / 1000) return error;
  return error.With([&](ErrorDetails& d) {
    d.message += fmt::format(
        "; the driver supports CUDA {}.{}, but this library's kernels need the driver of CUDA {}.0 or newer",
        driver / 1000, driver % 1000 / 10, CUDA_VERSION / 1000);
  });
}

}  // namespace

Result<std::shared_ptr<ReduceKernels>> ReduceKernels::Load(std::shared_ptr<const Gpu> gpu) {
  const Gpu& on = *gpu;
  const std::lock_guard lock(on.kernels().mutex);
  if (auto loaded = on.kernels().loaded.lock()) return loaded;
  std::shared_ptr<ReduceKernels> kernels(new ReduceKernels(std::move(gpu)));
  const Gpu::Use use(on);
  const Driver& driver = kernels->driver_;
  const Status loaded = driver.Check(driver.ModuleLoadData(&kernels->module_, rondo_cuda_image),
                                     fmt::format("loading kernels into {}", on.name()));
  if (!loaded) return Fail(BesideVersions(loaded.error(), driver.version));
  const auto processors = static_cast<unsigned>(on.Attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  kernels->most_blocks_ = std::max(processors, 1U) * kBlocksPerProcessor;
  kernels->functions_.resize(kTypes * kOps);
  RONDO_TRY(kernels->LoadAll());
  on.kernels().loaded = kernels;
  return kernels;
}

ReduceKernels::~ReduceKernels() {
  if (module_ == nullptr) return;
  const Gpu::Use use(*gpu_);
  driver_.ModuleUnload(module_);
}

Status ReduceKernels::LoadAll() {
  for (const DataType type : kAllDataTypes)
    for (const ReduceOp op : kAllReduceOps) {
      if (!CheckPairing(type, op)) continue;
      RONDO_TRY(Load(functions_[PlaceOf(type, op)], fmt::format("rondo_device_reduce_{}_{}", Name(type), Name(op))));
    }
  return Load(barrier_, "rondo_device_barrier");
}

Status ReduceKernels::Load(CUfunction& function, const std::string& name) const {
  RONDO_TRY(driver_.Check(driver_.ModuleGetFunction(&function, module_, name.c_str()), name));
  int threads = 0;  // not used: the query makes the driver load the kernel's code now
  return driver_.Check(driver_.FuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function), name);
}

Status ReduceKernels::Launch(CUstream stream, DataType type, ReduceOp op, const ReduceArguments& arguments) {
  RONDO_CHECK(arguments.count >= 1 && arguments.count <= kMaxSources, "{} sources", arguments.count);
  RONDO_TRY(CheckPairing(type, op));
  if (IsUserDefined(op))
    return Fail(ErrorCode::kInvalidArgument, "operation {} is defined by the user, so it does not run on GPUs",
                Name(op));
  CUfunction function = functions_[PlaceOf(type, op)];
  const Gpu::Use use(*gpu_);
  if (arguments.elements == 0) return {};
  const std::uint64_t threads = DivCeil(arguments.elements * SizeOf(type), kBytesPerThread);
  const auto blocks = static_cast<unsigned>(
      std::clamp<std::uint64_t>(DivCeil(threads, std::uint64_t{kThreadsPerBlock}), 1, most_blocks_));
  void* parameters[] = {const_cast<ReduceArguments*>(&arguments)};
  return driver_.Check(
      driver_.LaunchKernel(function, blocks, 1, 1, kThreadsPerBlock, 1, 1, 0, stream, parameters, nullptr),
      "launching a reduction");
}

Status ReduceKernels::Launch(CUstream stream, const BarrierArguments& arguments) {
  constexpr unsigned kThreads = 32;  // must equal the kernel's __launch_bounds__; at least one thread for each rank
  static_assert(kThreads >= kMaxSources);
  const Gpu::Use use(*gpu_);
  void* parameters[] = {const_cast<BarrierArguments*>(&arguments)};
  return driver_.Check(driver_.LaunchKernel(barrier_, 1, 1, 1, kThreads, 1, 1, 0, stream, parameters, nullptr),
                       "launching a barrier");
}

}  // namespace rondo::cuda
