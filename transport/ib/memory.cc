#include "transport/ib/memory.h"

#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace rondo::ib {
namespace {

using Devices = std::vector<std::shared_ptr<const Device>>;
using Handle = VerbsHandle<ibv_mr>;

// The registrations of one piece of memory with all devices, and the region by which lanes find them.
class Known {
 public:
  Known(Devices devices, std::shared_ptr<Registrations> all) : devices_(std::move(devices)), all_(std::move(all)) {}
  ~Known() {
    if (getpid() != owner_pid_) {  // in a forked child the parent owns the registrations
      for (auto& handle : handles_) static_cast<void>(handle.release());
      return;
    }
    if (added_) all_->Remove(region_);
  }
  Known(const Known&) = delete;

  // Registers the memory with all devices; must be called once. `register_with(device)` returns a Result<Handle>.
  template <typename RegisterWith>
  Status Make(Bytes memory, bool of_device, RegisterWith register_with) {
    region_.memory = memory;
    region_.of_device = of_device;
    for (const auto& device : devices_) {
      RONDO_ASSIGN(Handle handle, register_with(*device));
      region_.keys.push_back(handle->lkey);
      if (!of_device) region_.remote_keys.push_back(handle->rkey);
      handles_.push_back(std::move(handle));
    }
    all_->Add(region_);
    added_ = true;
    return {};
  }

 private:
  const int owner_pid_ = getpid();
  const Devices devices_;
  const std::shared_ptr<Registrations> all_;
  std::vector<Handle> handles_;
  Region region_;
  bool added_ = false;
};

class Registered final : public Registration {
 public:
  Registered(const Devices& devices, const std::shared_ptr<Registrations>& all) : known_(devices, all) {}
  Status Make(MutableBytes memory) {
    return known_.Make(memory, false, [&](const Device& device) { return device.Register(memory, true); });
  }

 private:
  Known known_;
};

class RegisteredOfDevice final : public DeviceRegistration {
 public:
  RegisteredOfDevice(const Devices& devices, const std::shared_ptr<Registrations>& all, DeviceMemoryWay way)
      : known_(devices, all), way_(way) {}
  Status Make(const DeviceMemory& memory) {
    return known_.Make(memory.bytes, true, [&](const Device& device) {
      return way_ == DeviceMemoryWay::kDmaBuf ? device.RegisterDmaBuf(memory) : device.RegisterPeerMemory(memory.bytes);
    });
  }
  DeviceMemoryWay way() const override { return way_; }

 private:
  Known known_;
  const DeviceMemoryWay way_;
};

class RegisteredMemory final : public Memory {
 public:
  RegisteredMemory(std::unique_ptr<Memory> memory, std::unique_ptr<Registration> registration)
      : memory_(std::move(memory)), registration_(std::move(registration)) {}
  MutableBytes bytes() const override { return memory_->bytes(); }

 private:
  const std::unique_ptr<Memory> memory_;
  const std::unique_ptr<Registration> registration_;  // destroyed before the memory
};

}  // namespace

Result<std::unique_ptr<Registration>> RegisterWith(const std::vector<std::shared_ptr<const Device>>& devices,
                                                   const std::shared_ptr<Registrations>& all, MutableBytes memory) {
  auto made = std::make_unique<Registered>(devices, all);
  RONDO_TRY(made->Make(memory));
  return made;
}

DeviceMemoryFacts FindDeviceMemoryFacts(const std::vector<std::shared_ptr<const Device>>& devices,
                                        const std::string& root) {
  DeviceMemoryFacts facts;
  facts.peer_memory = PeerMemoryModule(root);
  for (const auto& device : devices) {
    facts.library_has_dma_buf = device->verbs().reg_dmabuf_mr != nullptr;
    if (!facts.library_has_dma_buf) break;
    facts.adapters.push_back({.adapter = device->port().Name(), .refusal = device->AskDmaBuf()});
  }
  return facts;
}

Result<std::unique_ptr<DeviceRegistration>> RegisterOfDevice(const std::vector<std::shared_ptr<const Device>>& devices,
                                                             const std::shared_ptr<Registrations>& all,
                                                             const DeviceMemoryWays& ways, const DeviceMemory& memory) {
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(memory.bytes.data());
  if (memory.dma_buf_fd >= 0 && memory.dma_buf_offset % page != address % page)
    return Fail(ErrorCode::kInvalidArgument,
                "dma_buf_offset {2} does not fit the memory of {0}, which begins {1} bytes after the start of a page: "
                "a dma-buf is exported from the start of a page, and the offset counts from there",
                memory.device, address % page, memory.dma_buf_offset);
  ErrorCode code = ErrorCode::kUnsupported;
  std::string whys;
  for (const DeviceMemoryWay way : {DeviceMemoryWay::kDmaBuf, DeviceMemoryWay::kPeerMemory}) {
    std::string why = way == DeviceMemoryWay::kDmaBuf ? ways.no_dma_buf : ways.no_peer_memory;
    if (why.empty() && way == DeviceMemoryWay::kDmaBuf && memory.dma_buf_fd < 0)
      why = "its driver has exported no dma-buf; NVIDIA's open kernel modules do";
    if (why.empty()) {
      auto made = std::make_unique<RegisteredOfDevice>(devices, all, way);
      const Status known = made->Make(memory);
      if (known) return made;
      if (known.error().code() != ErrorCode::kUnsupported) code = known.error().code();
      why = known.error().message();
    }
    whys += fmt::format("{}by {}: {}", whys.empty() ? "" : "; ", Name(way), why);
  }
  return Fail(code, "{} bytes of {} cannot be sent directly by RDMA, so stage them through pinned host memory ({})",
              memory.bytes.size(), memory.device, whys);
}

std::unique_ptr<Memory> Together(std::unique_ptr<Memory> memory, std::unique_ptr<Registration> registration) {
  return std::make_unique<RegisteredMemory>(std::move(memory), std::move(registration));
}

Status KeepFromChildren(const Device& device, MutableBytes memory) {
  if (device.verbs().forks_safely() || madvise(memory.data(), memory.size(), MADV_DONTFORK) == 0) return {};
  return Fail(ErrorCode::kResource, "{} bytes of memory cannot be hidden from forked children (madvise): {}",
              memory.size(), std::strerror(errno));
}

}  // namespace rondo::ib
