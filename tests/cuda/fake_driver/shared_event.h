// Functions for the driver's calls that share events between processes.
#pragma once

#include <memory>

#include "tests/cuda/fake_driver/event.h"

namespace rondo::cuda::fake {

struct State;

// From now on the event uses the counts in the file, and owns the file. False: the file cannot be mapped.
bool ShareCounts(Event& event, SharedFile file);
// Puts the event into the table of events. Returns its handle.
CUevent Keep(State& state, std::shared_ptr<Event> event);

}  // namespace rondo::cuda::fake
