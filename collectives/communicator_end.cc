// The end of a CommunicatorCore: abort and destruction. operation_progress.cc ends the operations after a failure.
#include <fmt/core.h>
#include <unistd.h>

#include <thread>
#include <utility>

#include "collectives/communicator/peer_errors.h"
#include "collectives/communicator_core.h"

namespace rondo {

// ---- abort ----

// Aborts one child at a time, without the lock, because ending a child may call functions of the user.
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
  // If no other thread holds the progress lock, operations end here. Otherwise Begin has woken the thread that holds
  // it.
  operation_progress_.ProgressOnce();
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
  // All pending operations end before the endpoint does.
  progress_.Enter();
  // wait while another thread notifies the peers
  while (failure_.state() == Failure::State::kFailed) std::this_thread::yield();
  if (failure_.has_failed() && !failure_.has_ended()) operation_progress_.EndAfterFailure();
  streams_.End();
  if (failure_.has_failed()) {
    // If this rank failed before its first operation completed, other ranks may still have to connect to it.
    const bool peers_may_connect =
        failed_before && queue_.completed() == 0 && !messages_.in_use() && endpoint_->wait_fd() >= 0;
    failure_.FlushNotices(peers_may_connect, suspicion_.graces(), progress_.lock());
    // The destruction is not a first cause: another rank, or the parent of this group, may know the real one. So this
    // rank leaves a notice behind only if the communicator had failed before.
    if (failed_before) IfMemoryAllows([&] { failure_.LeaveNotice(); });
  }
  progress_.ForgetArmed();
  endpoint_.Take().reset();
  progress_.Leave();
  operation_progress_.RunCallbacks();
}

}  // namespace rondo
