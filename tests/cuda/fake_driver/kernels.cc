#include "tests/cuda/fake_driver/kernels.h"

#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "base/dtype.h"
#include "cuda/kernels/barrier.h"
#include "tests/cuda/host_kernels.h"

namespace rondo::cuda::fake {
namespace {

// Makes a kernel whose only parameter is a `Parameter`. The functions `prepare` and `run` receive it with that type.
template <class Parameter, class Prepare, class Run>
Kernel Make(std::string_view name, Prepare prepare, Run run) {
  const auto read = [](const std::byte* from) {
    Parameter parameter;
    std::memcpy(&parameter, from, sizeof parameter);
    return parameter;
  };
  return {.name = std::string(name),
          .parameter_bytes = sizeof(Parameter),
          .prepare =
              [read, prepare](std::byte* bytes, const Translate& translate) {
                Parameter parameter = read(bytes);
                if (!prepare(parameter, translate)) return false;
                std::memcpy(bytes, &parameter, sizeof parameter);
                return true;
              },
          .run = [read, run](const std::byte* bytes, std::uint64_t thread,
                             std::uint64_t threads) { run(read(bytes), thread, threads); }};
}

// ---- reductions: cuda/kernels/reduce.h ----

std::size_t ElementBytes(std::string_view kernel) {
  kernel.remove_prefix(std::string_view("rondo_device_reduce_").size());
  for (const DataType type : kAllDataTypes)
    if (kernel.substr(0, Name(type).size() + 1) == std::string(Name(type)) + "_") return SizeOf(type);
  return 0;
}

bool PrepareReduction(ReduceArguments& arguments, std::size_t element_bytes, const Translate& translate) {
  if (arguments.count < 1 || arguments.count > kMaxSources) return false;
  if (arguments.over != nullptr) {
    arguments.over = reinterpret_cast<const std::uint64_t*>(translate(arguments.over, sizeof *arguments.over));
    if (arguments.over == nullptr) return false;
    if (*arguments.over != 0) return true;  // the kernel touches nothing
  }
  if (arguments.elements == 0) return true;
  const std::size_t bytes = arguments.elements * element_bytes;
  arguments.destination = translate(arguments.destination, bytes);
  if (arguments.destination == nullptr) return false;
  for (std::int32_t s = 0; s < arguments.count; ++s) {
    arguments.sources[s] = translate(arguments.sources[s], bytes);
    if (arguments.sources[s] == nullptr) return false;
  }
  return true;
}

std::optional<Kernel> MakeReduceKernel(std::string_view name) {
  const HostKernel kernel = FindHostKernel(name);
  if (kernel == nullptr) return std::nullopt;
  return Make<ReduceArguments>(
      name,
      [element_bytes = ElementBytes(name)](ReduceArguments& arguments, const Translate& translate) {
        return PrepareReduction(arguments, element_bytes, translate);
      },
      [kernel](const ReduceArguments& arguments, std::uint64_t thread, std::uint64_t threads) {
        kernel(arguments, thread, threads);
      });
}

// ---- barriers: cuda/kernels/barrier.h ----

std::optional<Kernel> MakeBarrierKernel(std::string_view name) {
  if (name != "rondo_device_barrier") return std::nullopt;
  return Make<BarrierArguments>(
      name,
      [](BarrierArguments& arguments, const Translate& translate) {
        if (arguments.count < 1 || arguments.count > kMaxSources) return false;
        for (std::int32_t r = 0; r < arguments.count; ++r) {
          BarrierState*& state = arguments.states[r];
          state = reinterpret_cast<BarrierState*>(translate(state, sizeof *state));
          if (state == nullptr) return false;
        }
        arguments.report = reinterpret_cast<BarrierReport*>(translate(arguments.report, sizeof *arguments.report));
        return arguments.report != nullptr;
      },
      // Threads of this kernel wait for each other, but they run one after another here, so the first does the work of
      // all.
      [](const BarrierArguments& arguments, std::uint64_t thread, std::uint64_t) {
        const std::uint64_t barrier = thread == 0 ? BeginBarrier(arguments) : 0;
        if (barrier == 0) return;
        for (std::int32_t r = 0; r < arguments.count; ++r) Arrive(arguments, r, barrier);
        for (std::int32_t r = 0; r < arguments.count; ++r) Await(arguments, r, barrier);
        for (std::int32_t r = 0; r < arguments.count; ++r) TakeBack(arguments, r);
        EndBarrier(arguments);
      });
}

// ---- the list of kernels ----

using Family = std::optional<Kernel> (*)(std::string_view name);
constexpr Family kFamilies[] = {&MakeReduceKernel, &MakeBarrierKernel};

}  // namespace

const Kernel* FindKernel(std::string_view name) {
  static auto& found = *new std::map<std::string, Kernel, std::less<>>;
  if (const auto known = found.find(name); known != found.end()) return &known->second;
  for (const Family family : kFamilies)
    if (auto kernel = family(name)) return &found.emplace(std::string(name), *std::move(kernel)).first->second;
  return nullptr;
}

}  // namespace rondo::cuda::fake
