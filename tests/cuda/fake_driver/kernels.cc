#include "tests/cuda/fake_driver/kernels.h"

#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "base/dtype.h"
#include "cuda/kernels/meet.h"
#include "tests/cuda/host_kernels.h"

namespace rondo::cuda::fake {
namespace {

// Makes a kernel whose only parameter is a `Parameter`; both functions receive it with that type.
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

// ---- folds: cuda/kernels/fold.h ----

std::size_t ElementBytes(std::string_view fold) {
  fold.remove_prefix(std::string_view("rondo_fold_").size());
  for (const DataType type : kAllDataTypes)
    if (fold.substr(0, Name(type).size() + 1) == std::string(Name(type)) + "_") return SizeOf(type);
  return 0;
}

bool PrepareFold(FoldArguments& arguments, std::size_t element_bytes, const Translate& translate) {
  if (arguments.count < 1 || arguments.count > kMostSources) return false;
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

std::optional<Kernel> Fold(std::string_view name) {
  const HostKernel kernel = FindHostKernel(name);
  if (kernel == nullptr) return std::nullopt;
  return Make<FoldArguments>(
      name,
      [element_bytes = ElementBytes(name)](FoldArguments& arguments, const Translate& translate) {
        return PrepareFold(arguments, element_bytes, translate);
      },
      [kernel](const FoldArguments& arguments, std::uint64_t thread, std::uint64_t threads) {
        kernel(arguments, thread, threads);
      });
}

// ---- meetings: cuda/kernels/meet.h ----

std::optional<Kernel> Meet(std::string_view name) {
  if (name != "rondo_meet") return std::nullopt;
  return Make<MeetArguments>(
      name,
      [](MeetArguments& arguments, const Translate& translate) {
        if (arguments.count < 1 || arguments.count > kMostSources) return false;
        for (std::int32_t r = 0; r < arguments.count; ++r) {
          MeetingPlace*& place = arguments.places[r];
          place = reinterpret_cast<MeetingPlace*>(translate(place, sizeof *place));
          if (place == nullptr) return false;
        }
        arguments.report = reinterpret_cast<MeetingReport*>(translate(arguments.report, sizeof *arguments.report));
        return arguments.report != nullptr;
      },
      // Threads of this kernel wait for each other, but they run one after another here, so the first does the work of
      // all.
      [](const MeetArguments& arguments, std::uint64_t thread, std::uint64_t) {
        const std::uint64_t meeting = thread == 0 ? BeginMeeting(arguments) : 0;
        if (meeting == 0) return;
        for (std::int32_t r = 0; r < arguments.count; ++r) Arrive(arguments, r, meeting);
        for (std::int32_t r = 0; r < arguments.count; ++r) Await(arguments, r, meeting);
        for (std::int32_t r = 0; r < arguments.count; ++r) TakeBack(arguments, r);
        EndMeeting(arguments);
      });
}

// ---- the list of kernels ----

using Family = std::optional<Kernel> (*)(std::string_view name);
constexpr Family kFamilies[] = {&Fold, &Meet};

}  // namespace

const Kernel* FindKernel(std::string_view name) {
  static auto& found = *new std::map<std::string, Kernel, std::less<>>;
  if (const auto known = found.find(name); known != found.end()) return &known->second;
  for (const Family family : kFamilies)
    if (auto kernel = family(name)) return &found.emplace(std::string(name), *std::move(kernel)).first->second;
  return nullptr;
}

}  // namespace rondo::cuda::fake
