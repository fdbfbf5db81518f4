#include "tools/doctor/report.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/version.h"

namespace rondo {

int CountOf(const std::vector<Section>& sections, Level level) {
  int count = 0;
  for (const Section& section : sections)
    for (const Finding& finding : section.findings) count += finding.level == level;
  return count;
}

std::string ReportText(const std::vector<Section>& sections, bool quiet) {
  std::string text;
  for (const Section& section : sections) {
    std::string lines;
    for (const Finding& finding : section.findings) {
      if (quiet && finding.level == Level::kOk) continue;
      lines += fmt::format("  {:<4}  {}: {}\n", Name(finding.level), finding.subject, finding.what);
      if (!finding.remedy.empty()) lines += fmt::format("        -> {}\n", finding.remedy);
    }
    if (!lines.empty()) text += section.title + "\n" + lines;
  }
  const int warnings = CountOf(sections, Level::kWarn);
  return text +
         fmt::format("{} bad, {} warning{}\n", CountOf(sections, Level::kBad), warnings, warnings == 1 ? "" : "s");
}

std::string ReportJson(const std::vector<Section>& sections, const std::string& host, const PlannedJob& job,
                       const std::string& transport) {
  using Json = nlohmann::ordered_json;
  Json findings = Json::array();
  for (const Section& section : sections)
    for (const Finding& finding : section.findings)
      findings.push_back({{"section", section.title},
                          {"level", Name(finding.level)},
                          {"subject", finding.subject},
                          {"what", finding.what},
                          {"remedy", finding.remedy}});
  const Json report = {{"rondo", kRondoVersion},
                       {"host", host},
                       {"ranks", job.local_ranks},
                       {"transport", transport},
                       {"bad", CountOf(sections, Level::kBad)},
                       {"warnings", CountOf(sections, Level::kWarn)},
                       {"findings", std::move(findings)}};
  // Names and variables may contain bytes that are not UTF-8.
  return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace rondo
