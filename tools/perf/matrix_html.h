// Makes one self-contained HTML page of a matrix of pairs, with heat maps, slow directions and all paths. The page
// needs no script and no network.
#pragma once

#include <string>

#include "tools/perf/matrix_report.h"
#include "tools/perf/report.h"

namespace rondo {

std::string MatrixToHtml(const Matrix& matrix, const HostFacts& host);

}  // namespace rondo
