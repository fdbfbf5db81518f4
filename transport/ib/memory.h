// Transport::Allocate, Transport::Register and RegisterDevice for RDMA: memory that every device of the transport
// knows, so that lanes send from it without a copy (stream.h).
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

// `devices` are in the order of Region::keys; at least one. `memory` is not empty. Errors: those of Device::Register.
Result<std::unique_ptr<Registration>> RegisterWith(const std::vector<std::shared_ptr<const Device>>& devices,
                                                   const std::shared_ptr<Registrations>& all, MutableBytes memory);

// The facts that the devices, libibverbs and files below `root` give.
DeviceMemoryFacts FindDeviceMemoryFacts(const std::vector<std::shared_ptr<const Device>>& devices,
                                        const std::string& root = "");
// Memory of a GPU, for example. The host never reads it, and its mapping stays. One way is used on all devices:
// dma-buf, otherwise the other one. Errors: those of RegisterDevice (transport/device_memory.h), with the reason of
// each way; nothing stays registered then.
Result<std::unique_ptr<DeviceRegistration>> RegisterOfDevice(const std::vector<std::shared_ptr<const Device>>& devices,
                                                             const std::shared_ptr<Registrations>& all,
                                                             const DeviceMemoryWays& ways, const DeviceMemory& memory);

// Both as one object, which end in the right order.
std::unique_ptr<Memory> Together(std::unique_ptr<Memory> memory, std::unique_ptr<Registration> registration);

// To be called before memory is registered. On some kernels a fork would leave the pages that the device knows to the
// child, and give copies to the parent. There the child gets no such memory. kResource: the system refuses that.
Status KeepFromChildren(const Device& device, MutableBytes memory);

}  // namespace rondo::ib
