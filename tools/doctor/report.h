// Findings as text for users and as JSON for programs.
#pragma once

#include <string>
#include <vector>

#include "tools/doctor/findings.h"

namespace rondo {

int CountOf(const std::vector<Section>& sections, Level level);

// One line for each finding and each remedy, in the order of the sections. The final line says how many findings are
// bad and how many are warnings. `quiet` leaves out kOk findings.
std::string ReportText(const std::vector<Section>& sections, bool quiet);
// {"rondo": version, "host", "ranks", "transport", "bad", "warnings", "findings": [{"section", "level", "subject",
// "what", "remedy"}]}
std::string ReportJson(const std::vector<Section>& sections, const std::string& host, const PlannedJob& job,
                       const std::string& transport);

}  // namespace rondo
