// Transport::Allocate, Transport::Register and RegisterDevice where lanes go by RDMA: memory that every device of the
// transport knows, so that lanes send from it without a copy (stream.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "transport/device_memory.h"
#include "transport/ib/device.h"
#include "transport/ib/device_memory_probe.h"
#include "transport/ib/registrations.h"
#include "transport/transport.h"

namespace rondo::ib {

// Devices in the order of Region::keys; one at least. Not empty memory. Errors: those of Device::Register.
Result<std::unique_ptr<Registration>> RegisterWith(const std::vector<std::shared_ptr<const Device>>& devices,
                                                   const std::shared_ptr<Registrations>& all, MutableBytes memory);

// What the devices, libibverbs and files below `root` tell.
DeviceMemoryFacts FindDeviceMemoryFacts(const std::vector<std::shared_ptr<const Device>>& devices,
                                        const std::string& root = "");
// Memory of a GPU, say, which is never looked at, nor is its mapping changed. One way serves on all devices: dma-buf,
// or else the other. Errors: RegisterDevice's (transport/device_memory.h), with what each way said; nothing stays
// registered then.
Result<std::unique_ptr<DeviceRegistration>> RegisterOfDevice(const std::vector<std::shared_ptr<const Device>>& devices,
                                                             const std::shared_ptr<Registrations>& all,
                                                             const DeviceMemoryWays& ways, const DeviceMemory& memory);

// The two as one, which end in the right order.
std::unique_ptr<Memory> Together(std::unique_ptr<Memory> memory, std::unique_ptr<Registration> registration);

// To be called before memory of ours is registered. Where a fork gives the child the pages that the device knows, and
// the parent copies of them, the device would go on with the old ones; so there the child gets none. kResource: that
// cannot be.
Status KeepFromChildren(const Device& device, MutableBytes memory);

}  // namespace rondo::ib
