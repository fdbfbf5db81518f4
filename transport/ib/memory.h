// Transport::Allocate and Transport::Register where lanes go by RDMA: memory that every device of the transport knows,
// so that lanes send from it without a copy (stream.h).
#pragma once

#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "transport/ib/device.h"
#include "transport/ib/registrations.h"
#include "transport/transport.h"

namespace rondo::ib {

// Devices in the order of Region::keys; one at least. Not empty memory. Errors: those of Device::Register.
Result<std::unique_ptr<Registration>> RegisterWith(const std::vector<std::shared_ptr<const Device>>& devices,
                                                   const std::shared_ptr<Registrations>& all, MutableBytes memory);

// The two as one, which end in the right order.
std::unique_ptr<Memory> Together(std::unique_ptr<Memory> memory, std::unique_ptr<Registration> registration);

// To be called before memory of ours is registered. Where a fork gives the child the pages that the device knows, and
// the parent copies of them, the device would go on with the old ones; so there the child gets none. kResource: that
// cannot be.
Status KeepFromChildren(const Device& device, MutableBytes memory);

}  // namespace rondo::ib
