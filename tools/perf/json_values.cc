#include "tools/perf/json_values.h"

#include <fmt/core.h>

#include <string>

namespace rondo {
double Rounded(double value) { return std::stod(fmt::format("{:.6g}", value)); }

Json HostToJson(const HostFacts& host) {
  return Json{{"name", host.name}, {"cpu", host.cpu}, {"kernel", host.kernel}, {"cores", host.cores}};
}

}  // namespace rondo
