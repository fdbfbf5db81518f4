// Functions of events that the calls for events between processes need.
#pragma once

#include <memory>

#include "tests/cuda/fake_driver/event.h"

namespace rondo::cuda::fake {

struct State;

// The event uses the counts in the file, and takes ownership of the file. False: the file cannot be mapped.
bool ShareCounts(Event& event, SharedFile file);
// Puts the event into the table of events. Returns its handle.
CUevent Keep(State& state, std::shared_ptr<Event> event);

}  // namespace rondo::cuda::fake
