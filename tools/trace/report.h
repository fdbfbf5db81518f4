// The report of `rondo trace`: text for users, JSON for programs.
#pragma once

#include <string>
#include <vector>

#include "tools/trace/findings.h"
#include "tools/trace/merge.h"

namespace rondo {

// Returns the report as text. Its final line is a summary.
std::string TraceText(const Trace& trace, const std::vector<GroupFindings>& findings);
// {"rondo": version, "job": ..., "generation": ..., "healthy": ..., "hosts": [...], "groups": [...]}
std::string TraceJson(const Trace& trace, const std::vector<GroupFindings>& findings);

}  // namespace rondo
