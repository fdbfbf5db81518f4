// Transport::Allocate, Transport::Register and RegisterDevice for RDMA: memory that is registered with every device of
// the transport, so that lanes send from it without a copy (stream.h).
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

// Registers `memory` with all devices. `devices`: at least one, in the order of Region::keys. REQUIRES: `memory` is not
// empty. Errors: those of Device::Register.
Result<std::unique_ptr<Registration>> RegisterWith(const std::vector<std::shared_ptr<const Device>>& devices,
                                                   const std::shared_ptr<Registrations>& all, MutableBytes memory);

// Collects the facts from the devices, libibverbs and files below `root`.
DeviceMemoryFacts FindDeviceMemoryFacts(const std::vector<std::shared_ptr<const Device>>& devices,
                                        const std::string& root = "");
// Registers memory of a device, such as a GPU. The host never reads that memory, and its mapping does not change. The
// same way is used on all devices: dma-buf if possible, otherwise peer memory. Errors: those of RegisterDevice
// (transport/device_memory.h), with a reason for each way; nothing stays registered then.
Result<std::unique_ptr<DeviceRegistration>> RegisterOfDevice(const std::vector<std::shared_ptr<const Device>>& devices,
                                                             const std::shared_ptr<Registrations>& all,
                                                             const DeviceMemoryWays& ways, const DeviceMemory& memory);

// Returns one object that owns both and destroys the registration before the memory.
std::unique_ptr<Memory> Together(std::unique_ptr<Memory> memory, std::unique_ptr<Registration> registration);

// Call it before memory is registered. On some kernels a fork would leave the registered pages to the child and give
// copies to the parent. On such kernels this call excludes the memory from child processes. kResource: the system
// refuses that.
Status KeepFromChildren(const Device& device, MutableBytes memory);

}  // namespace rondo::ib
