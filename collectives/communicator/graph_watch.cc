#include "collectives/communicator/graph_watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "collectives/communicator/peer_errors.h"

namespace rondo {
namespace {

Error ErrorOf(const GraphTrouble& trouble, Rank self) {
  if (!trouble.missing.empty())
    return WithCulprit(ErrorCode::kTimeout,
                       fmt::format("in a launched graph, in what was captured as #{}, rank {} did not come within the "
                                   "timeout, as rank {} found",
                                   trouble.operation, fmt::join(trouble.missing, ", "), self),
                       trouble.missing.front());
  if (trouble.strayed.empty())
    return Error(ErrorCode::kPeerAborted, "another rank has ended all launched graphs, and has not said why");
  const auto knows = [](const GraphTrouble::Stray& one) { return one.operation != 0; };
  const auto known = std::find_if(trouble.strayed.begin(), trouble.strayed.end(), knows);
  const GraphTrouble::Stray& stray = known != trouble.strayed.end() ? *known : trouble.strayed.front();
  const std::string there =
      stray.operation != 0 ? fmt::format("#{}", stray.operation) : std::string("another, as others have found");
  return WithCulprit(
      ErrorCode::kMismatch,
      fmt::format("the ranks launch different graphs: rank {} is in what was captured as #{}, rank {} in {}", self,
                  trouble.operation, stray.rank, there),
      stray.rank);
}

}  // namespace

bool GraphWatch::CheckGraphsOf(DeviceQueue& queue) {
  const auto trouble = queue.TroubleOfGraphs();
  if (!trouble) return false;
  // The GPUs notify each other faster than their hosts do. One of the hosts has the cause: wait for its notice.
  const bool has_cause = !trouble->missing.empty() || !trouble->strayed.empty();
  const auto checks = graces_.graph_failure_cause / graces_.notice_check_interval;
  for (int check = 0; !has_cause && !failure_.has_failed() && check < checks; ++check)
    lock_.Rest(graces_.notice_check_interval, [&] { return failure_.has_failed(); });
  failure_.Begin(ErrorOf(*trouble, self_));
  return true;
}

}  // namespace rondo
