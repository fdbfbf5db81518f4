// A merged trace in the Trace Event Format, which chrome://tracing and ui.perfetto.dev show: a process per rank, of
// each communicator a thread with the collectives and a lane with the messages. Times begin with the first event.
#pragma once

#include <string>

#include "tools/trace/merge.h"

namespace rondo {

std::string TraceEvents(const Trace& trace);

}  // namespace rondo
