// Helpers for the tests of rondo doctor.
#pragma once

#include <doctest/doctest.h>

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "tools/doctor/findings.h"

namespace rondo {

inline std::ostream& operator<<(std::ostream& out, Level level) { return out << Name(level); }

// The first finding whose subject begins with `subject`; a finding without a subject if there is none.
inline Finding About(const std::vector<Finding>& findings, std::string_view subject) {
  for (const Finding& finding : findings)
    if (finding.subject.starts_with(subject)) return finding;
  return {Level::kOk, "", "", ""};
}

inline bool Contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// Every finding that reports a problem says what to do; every other finding does not.
inline void CheckRemedies(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    CAPTURE(finding.subject);
    CHECK((finding.level == Level::kOk) == finding.remedy.empty());
    CHECK(!finding.what.empty());
  }
}

inline IpAddress Ip(std::string_view text) { return *IpAddress::Parse(text); }

inline tcp::LocalAddress At(const std::string& interface, std::string_view ip) {
  return {.interface = interface, .devices = {}, .ip = Ip(ip), .prefix_bits = 24, .up = true};
}

}  // namespace rondo
