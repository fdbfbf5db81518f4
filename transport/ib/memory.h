// Transport::Allocate, Transport::Register and RegisterDevice for RDMA. They register memory with every RDMA device of
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

// Collects the facts from the devices, from libibverbs, and from files below `root`.
DeviceMemoryFacts FindDeviceMemoryFacts(const std::vector<std::shared_ptr<const Device>>& devices,
                                        const std::string& root = "");
// Registers memory of a device, such as a GPU, with every RDMA device. All RDMA devices use the same method: dma-buf if
// possible, otherwise peer memory. The host never reads the memory, and its mapping stays as it is. If the call fails,
// nothing stays registered. Errors: those of RegisterDevice (transport/device_memory.h), with a reason for each method.
Result<std::unique_ptr<DeviceRegistration>> RegisterOfDevice(const std::vector<std::shared_ptr<const Device>>& devices,
                                                             const std::shared_ptr<Registrations>& all,
                                                             const DeviceMemoryWays& ways, const DeviceMemory& memory);

// Returns one object that owns both arguments, and destroys the registration before the memory.
std::unique_ptr<Memory> Together(std::unique_ptr<Memory> memory, std::unique_ptr<Registration> registration);

// Call it before memory is registered. On some kernels a fork would give the registered pages to the child, and copies
// to the parent. On such kernels this call excludes the memory from child processes. kResource: the system refuses to
// do so.
Status KeepFromChildren(const Device& device, MutableBytes memory);

}  // namespace rondo::ib
