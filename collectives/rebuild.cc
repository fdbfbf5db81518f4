// A communicator's part of a rebuild: it ends itself, reports the ranks that it found dead, and calls its rebuilder.
#include "collectives/rebuild.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "collectives/communicator_core.h"

namespace rondo {
namespace {

Status CheckOptions(const RebuildOptions& options) {
  if (options.min_ranks < 1)
    return Fail(ErrorCode::kInvalidArgument, "min_ranks is {}; expected at least 1", options.min_ranks);
  if (options.max_ranks < 0 || (options.max_ranks > 0 && options.max_ranks < options.min_ranks))
    return Fail(ErrorCode::kInvalidArgument, "max_ranks is {}; expected 0, or at least min_ranks, which is {}",
                options.max_ranks, options.min_ranks);
  if (options.settle <= Duration::zero()) return Fail(ErrorCode::kInvalidArgument, "settle must be positive");
  if (options.timeout && *options.timeout <= Duration::zero())
    return Fail(ErrorCode::kInvalidArgument, "the timeout must be positive");
  return {};
}

}  // namespace

Rank RebuildReport::NewRankOf(Rank old_rank) const {
  const auto now = std::find(old_ranks.begin(), old_ranks.end(), old_rank);
  return old_rank < 0 || now == old_ranks.end() ? kNoRank : static_cast<Rank>(now - old_ranks.begin());
}

int RebuildReport::joiners() const { return static_cast<int>(std::count(old_ranks.begin(), old_ranks.end(), kNoRank)); }

std::string RebuildReport::ToString() const {
  if (old_ranks.empty()) return fmt::format("generation {}, not rebuilt", generation);
  std::string text = fmt::format("generation {} of {} ranks; ", generation, old_ranks.size());
  for (std::size_t rank = 0; rank < old_ranks.size(); ++rank) {
    if (rank > 0) text += ", ";
    text +=
        old_ranks[rank] == kNoRank ? fmt::format("{} is new", rank) : fmt::format("{} was {}", rank, old_ranks[rank]);
  }
  for (std::size_t i = 0; i < gone.size(); ++i)
    text += fmt::format("{}rank {} (host {}, pid {}): {}", i == 0 ? "; gone: " : "; ", gone[i].old_rank, gone[i].host,
                        gone[i].pid, gone[i].why);
  return text;
}

Result<std::unique_ptr<Communicator>> CommunicatorCore::Rebuild(const RebuildOptions& options) {
  RONDO_TRY(CheckOptions(options));
  if (options_.rebuilder == nullptr)
    return Fail(ErrorCode::kUnsupported,
                "this communicator cannot be rebuilt. If it is a group, rebuild its parent and split that again. "
                "Otherwise it was made without a rebuilder: set ConnectOptions::rebuildable");
  if (rebuilding_.exchange(true))
    return Fail(ErrorCode::kInvalidArgument, "rank {} has already rebuilt this communicator, or is rebuilding it now",
                rank());
  const TimePoint deadline = Later(clock_->Now(), options.timeout.value_or(options_.timeout));
  auto next = OrOutOfMemory("rebuilding", [&] { return RebuildBy(options, deadline); });
  if (!next) rebuilding_.store(false);
  return next;
}

Result<std::unique_ptr<Communicator>> CommunicatorCore::RebuildBy(const RebuildOptions& options, TimePoint deadline) {
  // A communicator that has not failed is closed with goodbyes, so that no rank loses an operation that has completed
  // on another rank. Ranks that have not come within the settle time get an abort; they may still take part in the
  // rebuild.
  const bool in_order = !failure_.has_failed() && !closing_.has_begun();
  if (in_order) {
    const TimePoint began = clock_->Now();
    TimePoint until = std::min(deadline, Later(began, options.settle));
    const Status parted = closing_.ExchangeBy(began, until);
    if (parted) closing_.ShutDown(parted);
    if (!parted && !failure_.has_failed()) Abort("it is being rebuilt, and not all ranks take part");
  }
  AbortChildren(fmt::format("rank {} rebuilds the communicator that this one was split from", rank()));
  // Waits until nothing except launched graphs uses any buffer, because the caller is going to reuse the buffers.
  if (failure_.has_failed() && !progress_.AdvanceUntil(deadline, 0, [&] { return failure_.has_ended(); }))
    return Fail(ErrorCode::kTimeout, "operations were still under way when the timeout of Rebuild ended");

  std::optional<Error> cause = failure();
  if (cause && cause->code() == ErrorCode::kAborted && in_order) cause = std::nullopt;
  return options_.rebuilder->Rebuild(
      {.options = options, .deadline = deadline, .failure = std::move(cause), .lost = [this] { return LostPeers(); }});
}

std::vector<Rank> CommunicatorCore::LostPeers() const {
  std::vector<Rank> lost = peers_.Lost();
  // Includes a dead rank that other ranks reported: if it was not connected to this rank, there is no other evidence.
  const std::optional<Error> cause = failure();
  if (!cause || cause->code() != ErrorCode::kPeerLost) return lost;
  const Rank culprit = cause->culprit();
  const auto at = std::lower_bound(lost.begin(), lost.end(), culprit);
  const bool is_peer = culprit >= 0 && culprit < world_size() && culprit != rank();
  if (is_peer && (at == lost.end() || *at != culprit)) lost.insert(at, culprit);
  return lost;
}

}  // namespace rondo
