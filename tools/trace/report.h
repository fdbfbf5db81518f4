// What `rondo trace` says: text for people, JSON for programs.
#pragma once

#include <string>
#include <vector>

#include "tools/trace/findings.h"
#include "tools/trace/merge.h"

namespace rondo {

// Ends with a line that sums it up.
std::string TraceText(const Trace& trace, const std::vector<GroupFindings>& findings);
// {"rondo": version, "job": ..., "generation": ..., "healthy": ..., "hosts": [...], "groups": [...]}
std::string TraceJson(const Trace& trace, const std::vector<GroupFindings>& findings);

}  // namespace rondo
