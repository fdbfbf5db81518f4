// How a core ends: abort, destruction. operation_progress.cc ends its operations after a failure.
#include <fmt/core.h>
#include <unistd.h>

#include <thread>
#include <utility>

#include "collectives/communicator/peer_errors.h"
#include "collectives/communicator_core.h"

namespace rondo {

// ---- abort ----

// One after the other, and not all of them under the lock: a child's end may call functions of the user.
void CommunicatorCore::AbortChildren(std::string_view reason) {
  while (true) {
    const auto child = children_.Find([](const CommunicatorCore& one) { return !one.failure_.has_failed(); });
    if (child == nullptr) return;
    child->Abort(reason);
  }
}

void CommunicatorCore::Abort(std::string_view reason) {
  Error error = Error::MemoryRanOut();
  IfMemoryAllows(
      [&] { error = WithCulprit(ErrorCode::kAborted, fmt::format("rank {} aborted: {}", rank(), reason), rank()); });
  failure_.Begin(std::move(error));
  AbortChildren(reason);
  operation_progress_.ProgressOnce();  // where nobody drives, end here and now; where somebody does, he has been woken
}

bool CommunicatorCore::IsInItsProcess() const { return getpid() == process_; }

void CommunicatorCore::Destroy() {
  const bool failed_before = failure_.has_failed();
  const std::optional<Status> closed = closing_.status();
  if (!closed || !closed->has_value()) {
    Error error = Error::MemoryRanOut();
    IfMemoryAllows([&] {
      error = WithCulprit(ErrorCode::kAborted,
                          fmt::format("rank {} destroyed its communicator without closing it", rank()), rank());
    });
    failure_.Begin(std::move(error));
  }
  progress_.StopThread();
  // Whatever was pending ends before the endpoint goes.
  progress_.Enter();
  while (failure_.state() == Failure::State::kFailed) std::this_thread::yield();  // another thread notifies the peers
  if (failure_.has_failed() && !failure_.has_ended()) operation_progress_.EndAfterFailure();
  streams_.End();
  if (failure_.has_failed()) {
    // A rank that failed before it has done anything may be ahead of others.
    const bool peers_may_connect =
        failed_before && queue_.completed() == 0 && !messages_.in_use() && endpoint_->wait_fd() >= 0;
    failure_.FlushNotices(peers_may_connect, suspicion_.graces(), progress_.lock());
    // Its destruction is no first cause: another rank, or the parent of this group, may know the real one.
    if (failed_before) IfMemoryAllows([&] { failure_.LeaveNotice(); });
  }
  progress_.ForgetArmed();
  endpoint_.Take().reset();
  progress_.Leave();
  operation_progress_.RunCallbacks();
}

}  // namespace rondo
