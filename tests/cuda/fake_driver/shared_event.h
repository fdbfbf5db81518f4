// What the calls for events between processes need of events.
#pragma once

#include <memory>

#include "tests/cuda/fake_driver/event.h"

namespace rondo::cuda::fake {

struct State;

// The event's numbers are those in the file, which becomes its own. False: it cannot be mapped.
bool ShareCounts(Event& event, SharedFile file);
// In the table of events, under the handle that it gets.
CUevent Keep(State& state, std::shared_ptr<Event> event);

}  // namespace rondo::cuda::fake
