// Any transport, with the faults of a plan (fault_plan.h) on its lanes and control messages:
//
//   auto plan = fault::ParseFaultPlan("cut@lane(0->1):bytes=4096");
//   auto injector = std::make_shared<fault::FaultInjector>(*plan);
//   auto transport = fault::MakeFaultyTransport(inner, injector);      // on every rank, with the same plan
//   ...
//   CHECK(injector->fired(0).count() == 1);                            // otherwise nothing was tested
//
// A fault happens at the rank that writes the bytes, so it is enough to wrap that rank's transport. There are two
// exceptions: slices, which both ends make, and shared segments (see below). With an empty plan a faulty transport
// behaves like the inner transport. It passes the conformance suite with an empty plan, and with plans of slices and
// stalls.
//
// If the plan is not empty, the transport has no shared segments (Endpoint::MayHaveSharedSegment). The ranks use lanes
// instead, because faults of lanes would not affect shared segments. All ranks must agree whether they use shared
// segments. So either all ranks must have a plan with faults, or none.
//
// proxied_transport.h has faults of real sockets.
#pragma once

#include <memory>

#include "base/result.h"
#include "transport/fault/fault_injector.h"
#include "transport/transport.h"

namespace rondo::fault {

// kInvalidArgument: the plan has a kill, but InjectorOptions::kill is not set.
Result<std::shared_ptr<Transport>> MakeFaultyTransport(std::shared_ptr<Transport> inner,
                                                       std::shared_ptr<FaultInjector> injector);

}  // namespace rondo::fault
