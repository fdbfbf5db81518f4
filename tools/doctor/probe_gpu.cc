// Collects facts about GPUs from the system and NVIDIA's driver, and asks RDMA adapters about GPU memory.
#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/net/fd.h"
#include "cuda/survey.h"
#include "tools/doctor/probe.h"
#include "transport/ib/device.h"
#include "transport/ib/device_memory_probe.h"
#include "transport/ib/memory.h"
#include "transport/ib/ports.h"
#include "transport/ib/verbs_library.h"

namespace rondo {
namespace {

// The text in which a child process returns its survey. It has a line with the error or the driver's version, then one
// line for each GPU.
std::string Written(const Result<GpuSurvey>& survey) {
  if (!survey) return fmt::format("error {}\n", survey.error().message());
  std::string text = fmt::format("driver {}\n", survey->driver_version);
  for (const SurveyedGpu& gpu : survey->gpus)
    text += fmt::format("{} {} {} {}\n", gpu.pci_address, static_cast<int>(gpu.access),
                        gpu.mps ? static_cast<int>(*gpu.mps) : -1, gpu.name);
  return text;
}

Result<GpuSurvey> Parsed(const std::string& text) {
  std::istringstream lines(text);
  std::string word, rest;
  if (!(lines >> word >> std::ws))
    return Fail(ErrorCode::kDevice, "NVIDIA's driver ended the process that asked it for GPUs");
  std::getline(lines, rest);
  if (word == "error") return Fail(ErrorCode::kUnsupported, "{}", rest);
  GpuSurvey survey;
  const auto [end, wrong] = std::from_chars(rest.data(), rest.data() + rest.size(), survey.driver_version);
  if (wrong != std::errc() || end != rest.data() + rest.size())
    return Fail(ErrorCode::kDevice, "the process that asked NVIDIA's driver for GPUs answered '{} {}'", word, rest);
  SurveyedGpu gpu;
  int access = 0, mps = 0;
  while (lines >> gpu.pci_address >> access >> mps >> std::ws && std::getline(lines, gpu.name)) {
    gpu.access = static_cast<SurveyedGpu::Access>(access);
    gpu.mps = mps < 0 ? std::nullopt : std::optional(mps != 0);
    survey.gpus.push_back(gpu);
  }
  return survey;
}

// Reads until the other end is closed. nullopt: the timeout passed first.
std::optional<std::string> ReadAll(int fd, const Clock& clock, Duration timeout) {
  const TimePoint deadline = Later(clock.Now(), timeout);
  std::string text;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock.Now());
    pollfd wait{.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = poll(&wait, 1, static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1'000'000)));
    if (ready == 0) return std::nullopt;
    if (ready < 0 && errno == EINTR) continue;
    char part[4096];
    const ssize_t got = read(fd, part, sizeof part);
    if (got == 0 || (got < 0 && errno != EINTR)) return text;
    if (got > 0) text.append(part, static_cast<std::size_t>(got));
  }
}

}  // namespace

void AskGpuDriver(const Clock& clock, Duration timeout, GpuFacts& facts) {
  facts.built_with_cuda = BuiltWithCuda();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  const Fd reading(ends[0]);
  Fd writing(ends[1]);
  // Queries the driver in a child, because the driver starts threads, and with a faulty GPU it may never return.
  const pid_t self = getpid();
  const pid_t child = fork();
  if (child < 0) return;
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != self) _exit(1);  // the parent died before PR_SET_PDEATHSIG was in force
    const std::string text = Written(SurveyGpus());
    _exit(write(writing.get(), text.data(), text.size()) < 0);
  }
  writing.Close();
  const auto text = ReadAll(reading.get(), clock, timeout);
  facts.survey = text ? Parsed(*text)
                      : Fail(ErrorCode::kTimeout, "NVIDIA's driver did not answer within {} s",
                             std::chrono::ceil<std::chrono::seconds>(timeout).count());
  kill(child, SIGKILL);
  // Does not wait for the child, because the driver may block it in the kernel, where SIGKILL has no effect.
  waitpid(child, nullptr, WNOHANG);
}

void AskGpuAdapters(const RdmaFacts& rdma, GpuFacts& facts) {
  if (rdma.ports.empty() || (facts.nvidia_gpus == 0 && !facts.survey)) return;
  const auto library = ib::LoadVerbs();
  if (!library) return;
  const auto ports = ib::EnumeratePorts(*library);
  if (!ports) return;
  std::vector<std::shared_ptr<const ib::Device>> devices;
  for (const ib::Port& port : *ports)
    if (auto device = ib::Device::Open(*library, {.port = port, .gid = {}, .reason = ""}); port.active && device)
      devices.push_back(std::move(*device));
  facts.reach = ib::FindDeviceMemoryFacts(devices);
}

void ReadGpu(const HostFiles& files, GpuFacts& facts) {
  for (const std::string& name : files.List("/dev"))
    facts.nvidia_gpus += name.starts_with("nvidia") && ParseNumber(name.substr(6)).has_value();
  const auto version = files.Text("/proc/driver/nvidia/version");
  // Before the driver's module is loaded, there are no device files. After that, only the devices of this container
  // have device files.
  if (facts.nvidia_gpus == 0 && !version)
    for (const std::string& device : files.List("/sys/bus/pci/devices")) {
      const std::string folder = "/sys/bus/pci/devices/" + device;
      facts.nvidia_gpus +=
          files.Line(folder + "/vendor") == "0x10de" && files.Line(folder + "/class").starts_with("0x03");
    }
  facts.reach.peer_memory = ib::PeerMemoryModule(files.Path(""));
  facts.open_driver = version.value_or("").find("Open Kernel Module") != std::string::npos;
}

}  // namespace rondo
