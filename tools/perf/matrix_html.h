// A matrix of pairs as one self-contained HTML page: heat maps, slow directions, all paths. No script, no network.
#pragma once

#include <string>

#include "tools/perf/matrix_report.h"
#include "tools/perf/report.h"

namespace rondo {

std::string MatrixToHtml(const Matrix& matrix, const HostFacts& host);

}  // namespace rondo
