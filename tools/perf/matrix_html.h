// A matrix of pairs as one page that needs nothing else: heat maps, what is slow, every path. No script, no network.
#pragma once

#include <string>

#include "tools/perf/matrix_report.h"
#include "tools/perf/report.h"

namespace rondo {

std::string MatrixToHtml(const Matrix& matrix, const HostFacts& host);

}  // namespace rondo
