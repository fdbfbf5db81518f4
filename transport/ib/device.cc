#include "transport/ib/device.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/net/descriptors.h"
#include "transport/ib/device_events.h"

namespace rondo::ib {
namespace {

std::string KiB(rlim_t bytes) { return bytes == RLIM_INFINITY ? "no limit" : fmt::format("{} KiB", bytes / 1024); }

// Pinned memory counts towards a limit (RLIMIT_MEMLOCK), which new users of RDMA often have not raised.
Error NotRegistered(std::string_view device, std::size_t bytes, int why) {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  std::string message = fmt::format("{} cannot register {} bytes: {}", device, bytes, std::strerror(why));
  if (why == ENOMEM && limit.rlim_cur != RLIM_INFINITY)
    message += fmt::format(
        "; this process may lock {} of memory (ulimit -l) for all its lanes together: raise 'memlock' in "
        "/etc/security/limits.conf, or LimitMEMLOCK= of the service that starts it",
        KiB(limit.rlim_cur));
  return Error(ErrorCode::kResource, std::move(message));
}

// No access right is requested, because an adapter that only sends needs only to read, which is always allowed.
constexpr int kReadOnly = 0;

Error DeviceMemoryRefused(std::string_view adapter, int why) {
  return Error(why == ENOMEM ? ErrorCode::kResource : ErrorCode::kUnsupported,
               fmt::format("{} refuses it ({}){}", adapter, std::strerror(why),
                           why == ENOMEM
                               ? "; the GPU memory that adapters can map (BAR1) may be used up: nvidia-smi -q -d MEMORY"
                               : ""));
}

}  // namespace

Error NotMade(std::string_view device, std::string_view what) {
  return Error(ErrorCode::kResource, fmt::format("{} cannot create {}: {}", device, what, SystemWords(errno)));
}

void UnmapPages::operator()(std::byte* pages) const { munmap(pages, bytes); }

Result<std::shared_ptr<const Device>> Device::Open(const VerbsLibrary& library, ChosenPort chosen) {
  const std::shared_ptr<Device> device(new Device(library, std::move(chosen)));
  const std::string& name = device->port().device;
  int count = 0;
  const auto free_list = [&](ibv_device** list) { library.free_device_list(list); };
  const std::unique_ptr<ibv_device*, decltype(free_list)> list(library.get_device_list(&count), free_list);
  for (int i = 0; list != nullptr && i < count && device->context_ == nullptr; ++i)
    if (name == library.get_device_name(list.get()[i])) {
      device->context_ = {library.open_device(list.get()[i]), {library.close_device}};
      if (device->context_ == nullptr) return Fail(NotMade(name, "a context"));
    }
  if (device->context_ == nullptr) return Fail(ErrorCode::kUnsupported, "RDMA device {} was removed", name);
  // Events are read only after a failure, and reading them must not block.
  const int events = device->context()->async_fd;
  if (fcntl(events, F_SETFL, fcntl(events, F_GETFL) | O_NONBLOCK) != 0)
    return Fail(NotMade(name, "a nonblocking event queue"));
  device->domain_ = {library.alloc_pd(device->context()), {library.dealloc_pd}};
  if (device->domain_ == nullptr) return Fail(NotMade(name, "a protection domain"));
  return device;
}

Result<Pages> Pages::Make(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  bytes = (bytes + page - 1) / page * page;
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return Fail(ErrorCode::kOutOfMemory, "cannot allocate {} bytes for an RDMA lane", bytes);
  Pages pages;
  pages.pages_ = {static_cast<std::byte*>(mapped), {bytes}};
  // After a fork the parent must keep the pages that are registered with the device.
  madvise(mapped, bytes, MADV_DONTFORK);
  return pages;
}

Result<VerbsHandle<ibv_mr>> Device::Register(MutableBytes memory, bool remote) const {
  const int access = IBV_ACCESS_LOCAL_WRITE | (remote ? IBV_ACCESS_REMOTE_WRITE : 0);
  VerbsHandle<ibv_mr> region{verbs_.reg_mr(domain(), memory.data(), memory.size(), access), {verbs_.dereg_mr}};
  if (region == nullptr) return Fail(NotRegistered(port().Name(), memory.size(), errno));
  return region;
}

Result<VerbsHandle<ibv_mr>> Device::RegisterDmaBuf(const DeviceMemory& memory) const {
  // The region begins at the address that the memory has for its own device, so that requests can use this address.
  const auto address = reinterpret_cast<std::uintptr_t>(memory.bytes.data());
  VerbsHandle<ibv_mr> region{
      verbs_.reg_dmabuf_mr(domain(), memory.dma_buf_offset, memory.bytes.size(), address, memory.dma_buf_fd, kReadOnly),
      {verbs_.dereg_mr}};
  if (region == nullptr) return Fail(DeviceMemoryRefused(port().Name(), errno));
  return region;
}

Result<VerbsHandle<ibv_mr>> Device::RegisterPeerMemory(Bytes memory) const {
  VerbsHandle<ibv_mr> region{verbs_.reg_mr(domain(), const_cast<std::byte*>(memory.data()), memory.size(), kReadOnly),
                             {verbs_.dereg_mr}};
  if (region == nullptr) return Fail(DeviceMemoryRefused(port().Name(), errno));
  return region;
}

// Tries to register an invalid descriptor, which always fails. If errno says that the descriptor is wrong, the device
// takes dma-bufs.
int Device::AskDmaBuf() const {
  const VerbsHandle<ibv_mr> none{verbs_.reg_dmabuf_mr(domain(), 0, 0, 0, -1, kReadOnly), {verbs_.dereg_mr}};
  if (none != nullptr) return 0;
  return errno == EOPNOTSUPP || errno == EPROTONOSUPPORT || errno == ENOSYS ? errno : 0;
}

std::string Device::LastFault() const {
  const std::lock_guard lock(mutex_);
  ibv_async_event event{};
  while (verbs_.get_async_event(context(), &event) == 0) {
    const EventWords words = Words(event.event_type);
    const bool ours = !words.of_port || event.element.port_num == port().number;
    if (ours && event.event_type == IBV_EVENT_PORT_ACTIVE) last_fault_.clear();
    if (ours && !words.remedy.empty()) last_fault_ = fmt::format("{} ({})", words.name, words.remedy);
    verbs_.ack_async_event(&event);
  }
  return last_fault_;
}

}  // namespace rondo::ib
