// Memory of a device that the adapters of a transport have been told of, so that its lanes send it from where it lies.
// Whole allocations, once: telling takes longer than most operations. An allocation is known by the identity that the
// device gives it, and so never taken for one that lies at its address later.
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
  static constexpr std::size_t kMostKept = 64;

  // Both outlive it.
  DeviceRegistrations(Transport& transport, DeviceQueue& queue) : transport_(transport), queue_(queue) {}

  // Whether lanes that send memory of devices may be given these bytes. An allocation that was refused once is not
  // asked for again. `idle`: no operation is under way, so that what is gone, or too much, may be let go.
  bool Knows(Bytes memory, bool idle);
  // Why the last allocation that was refused was.
  const std::string& why() const { return why_; }

 private:
  struct Kept {
    Bytes memory;
    std::uint64_t identity = 0;
    std::uint64_t last_use = 0;
    std::unique_ptr<DeviceRegistration> registration;  // null: it was refused
  };
  void LetGo();

  Transport& transport_;
  DeviceQueue& queue_;
  std::vector<Kept> kept_;
  std::uint64_t uses_ = 0;
  std::string why_;
};

}  // namespace rondo
