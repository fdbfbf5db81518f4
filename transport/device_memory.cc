#include "transport/device_memory.h"

#include "base/out_of_memory.h"

namespace rondo {

std::string_view Name(DeviceMemoryWay way) {
  switch (way) {
    case DeviceMemoryWay::kDmaBuf: return "dma-buf";
    case DeviceMemoryWay::kPeerMemory: return "peer memory";
  }
  return "?";
}

Result<std::unique_ptr<DeviceRegistration>> RegisterDevice(Transport& transport, const DeviceMemory& memory) {
  if (memory.bytes.empty())
    return Fail(ErrorCode::kInvalidArgument, "cannot register memory of {}: it has 0 bytes", memory.device);
  DeviceRegistrar* const registrar = transport.device_registrar();
  if (registrar == nullptr)
    return Fail(
        ErrorCode::kUnsupported,
        "transport {} cannot send directly from memory of a device; stage memory of {} through pinned host memory",
        transport.name(), memory.device);
  return OrOutOfMemory("registering memory of a device", [&] { return registrar->RegisterDevice(memory); });
}

}  // namespace rondo
