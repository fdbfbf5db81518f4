// Any transport, with the faults of a plan (fault_plan.h) on its lanes and control messages:
//
//   auto plan = fault::ParseFaultPlan("cut@lane(0->1):bytes=4096");
//   auto injector = std::make_shared<fault::FaultInjector>(*plan);
//   auto transport = fault::MakeFaultyTransport(inner, injector);      // on every rank, with the same plan
//   ...
//   CHECK(injector->fired(0).count() == 1);                            // or nothing was tested
//
// Each fault happens where the bytes are written, so wrapping the transport of the writing rank is enough, but for
// slices, which both ends make, and for shared segments. With an empty plan it is the transport inside; the conformance
// suite passes over it then, and with plans of slices and stalls.
//
// What it does not have, and says so: shared segments (Endpoint::MayHaveSharedSegment), unless the plan is empty. They
// are memory, which no lane's fault would meet; ranks then use lanes. That must be the same on all ranks, so all must
// have a plan or none.
//
// For faults of real sockets: proxied_transport.h.
#pragma once

#include <memory>

#include "base/result.h"
#include "transport/fault/fault_injector.h"
#include "transport/transport.h"

namespace rondo::fault {

// kInvalidArgument: the plan has a kill, and the injector nothing to do it with.
Result<std::shared_ptr<Transport>> MakeFaultyTransport(std::shared_ptr<Transport> inner,
                                                       std::shared_ptr<FaultInjector> injector);

}  // namespace rondo::fault
