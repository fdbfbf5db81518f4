// Writes a merged trace in the Trace Event Format for chrome://tracing and ui.perfetto.dev. Each rank is a process.
// Each communicator is a thread with its collectives, and a second thread with its messages. Times start at the first
// event.
#pragma once

#include <string>

#include "tools/trace/merge.h"

namespace rondo {

std::string TraceEvents(const Trace& trace);

}  // namespace rondo
