#include "transport/ib/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace rondo::ib {
namespace {

class Registered final : public Registration {
 public:
  Registered(std::vector<std::shared_ptr<const Device>> devices, std::shared_ptr<Registrations> all)
      : devices_(std::move(devices)), all_(std::move(all)) {}
  ~Registered() override {
    if (getpid() != owner_pid_) {  // a forked child: what the devices know is the parent's
      for (auto& handle : handles_) static_cast<void>(handle.release());
      return;
    }
    if (added_) all_->Remove(region_);
  }

  Status Make(MutableBytes memory) {
    region_.memory = memory;
    for (const auto& device : devices_) {
      RONDO_ASSIGN(auto handle, device->Register(memory, false));
      region_.keys.push_back(handle->lkey);
      handles_.push_back(std::move(handle));
    }
    all_->Add(region_);
    added_ = true;
    return {};
  }

 private:
  const int owner_pid_ = getpid();
  const std::vector<std::shared_ptr<const Device>> devices_;
  const std::shared_ptr<Registrations> all_;
  std::vector<VerbsHandle<ibv_mr>> handles_;
  Region region_;
  bool added_ = false;
};

class RegisteredMemory final : public Memory {
 public:
  RegisteredMemory(std::unique_ptr<Memory> memory, std::unique_ptr<Registration> registration)
      : memory_(std::move(memory)), registration_(std::move(registration)) {}
  MutableBytes bytes() const override { return memory_->bytes(); }

 private:
  const std::unique_ptr<Memory> memory_;
  const std::unique_ptr<Registration> registration_;  // ends before the memory does
};

}  // namespace

Result<std::unique_ptr<Registration>> RegisterWith(const std::vector<std::shared_ptr<const Device>>& devices,
                                                   const std::shared_ptr<Registrations>& all, MutableBytes memory) {
  auto made = std::make_unique<Registered>(devices, all);
  RONDO_TRY(made->Make(memory));
  return made;
}

std::unique_ptr<Memory> Together(std::unique_ptr<Memory> memory, std::unique_ptr<Registration> registration) {
  return std::make_unique<RegisteredMemory>(std::move(memory), std::move(registration));
}

Status KeepFromChildren(const Device& device, MutableBytes memory) {
  if (device.verbs().forks_safely() || madvise(memory.data(), memory.size(), MADV_DONTFORK) == 0) return {};
  return Fail(ErrorCode::kResource, "{} bytes cannot be kept from forked children: {}", memory.size(),
              std::strerror(errno));
}

}  // namespace rondo::ib
