#include "collectives/communicator/graph_watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "collectives/communicator/peer_errors.h"

namespace rondo {
namespace {

Error ErrorOf(const GraphFailure& failure, Rank self) {
  if (!failure.missing.empty())
    return WithCulprit(ErrorCode::kTimeout,
                       fmt::format("a launched graph timed out: rank {} did not reach the operation captured as #{} "
                                   "(reported by rank {})",
                                   fmt::join(failure.missing, ", "), failure.operation, self),
                       failure.missing.front());
  if (failure.strayed.empty())
    return Error(ErrorCode::kPeerAborted, "another rank has ended all launched graphs, but gave no cause");
  const auto knows = [](const GraphFailure::Stray& one) { return one.operation != 0; };
  const auto known = std::find_if(failure.strayed.begin(), failure.strayed.end(), knows);
  const GraphFailure::Stray& stray = known != failure.strayed.end() ? *known : failure.strayed.front();
  const std::string there =
      stray.operation != 0 ? fmt::format("#{}", stray.operation) : std::string("another, as other ranks report");
  return WithCulprit(
      ErrorCode::kMismatch,
      fmt::format(
          "the ranks launch different graphs: rank {} is in the operation captured as #{}, but rank {} is in {}", self,
          failure.operation, stray.rank, there),
      stray.rank);
}

}  // namespace

bool GraphWatch::CheckGraphsOf(DeviceQueue& queue) {
  const auto failure = queue.FindGraphFailure();
  if (!failure) return false;
  // The GPUs notify each other faster than the ranks' processes do. If this rank's GPU does not know the cause, another
  // rank's GPU does. So this rank waits for that rank's notice.
  const bool has_cause = !failure->missing.empty() || !failure->strayed.empty();
  const auto checks = graces_.graph_failure_cause / graces_.notice_check_interval;
  for (int check = 0; !has_cause && !failure_.has_failed() && check < checks; ++check)
    lock_.ParkFor(graces_.notice_check_interval, [&] { return failure_.has_failed(); });
  failure_.Begin(ErrorOf(*failure, self_));
  return true;
}

}  // namespace rondo
