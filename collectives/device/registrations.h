// GPU memory that is registered with a transport's adapters, so that the transport's lanes can send it without a copy.
// A whole allocation is registered, and only once, because a registration takes longer than most operations. The device
// gives each allocation a unique identity. So a later allocation at the same address is not mistaken for the registered
// one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collectives/engine/device.h"
#include "transport/device_memory.h"
#include "transport/transport.h"

namespace rondo {

// Thread rule: the issuer.
class DeviceRegistrations {
 public:
  static constexpr std::size_t kMaxKept = 64;

  // `transport` and `queue` must outlive this object.
  DeviceRegistrations(Transport& transport, DeviceQueue& queue) : transport_(transport), queue_(queue) {}

  // Whether lanes that can send GPU memory may be given these bytes. Registers their allocation if necessary, but not
  // if its registration was refused before. `idle`: no operation is pending, so registrations of freed memory, and
  // surplus ones, may be released.
  bool Knows(Bytes memory, bool idle);
  // The reason why memory was last refused.
  const std::string& why() const { return why_; }

 private:
  struct Kept {
    Bytes memory;
    std::uint64_t identity = 0;
    std::uint64_t last_use = 0;
    std::unique_ptr<DeviceRegistration> registration;  // null: the transport refused to register the memory
  };
  void LetGo();

  Transport& transport_;
  DeviceQueue& queue_;
  std::vector<Kept> kept_;
  std::uint64_t uses_ = 0;
  std::string why_;
};

}  // namespace rondo
