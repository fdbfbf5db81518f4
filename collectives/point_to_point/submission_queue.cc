#include "collectives/point_to_point/submission_queue.h"

#include <algorithm>
#include <utility>

namespace rondo {

Status SubmissionQueue::MaySubmit(std::size_t count) const {
  if (refusal_) return Fail(*refusal_);
  const std::uint32_t pending = pending_.load();
  if (pending + count > max_pending_)
    return Fail(ErrorCode::kResource, "{} sends and receives are pending; the limit (max_pending_messages) is {}",
                pending, max_pending_);
  return {};
}

void SubmissionQueue::Refuse(Error error) {
  const MutexLock lock(mutex_);
  if (!refusal_) refusal_ = std::move(error);
}

void SubmissionQueue::Close(Error error) {
  Refuse(std::move(error));
  is_closed_.store(true);
}

void SubmissionQueue::OnPeerCall(Rank from) {
  {
    const MutexLock lock(mutex_);
    if (std::find(peer_calls_.begin(), peer_calls_.end(), from) == peer_calls_.end()) peer_calls_.push_back(from);
  }
  in_use_.store(true);
  has_peer_calls_.store(true);
}

MessageOperation* SubmissionQueue::Take() {
  if (!is_waiting_.load()) return nullptr;
  const MutexLock lock(mutex_);
  MessageOperation* const operation = submitted_.front();
  if (operation != nullptr) StageList::Remove(*operation);
  if (submitted_.empty()) is_waiting_.store(false);
  return operation;
}

std::vector<Rank> SubmissionQueue::TakePeerCalls() {
  if (!has_peer_calls_.exchange(false)) return {};
  std::vector<Rank> calls;
  const MutexLock lock(mutex_);
  calls.swap(peer_calls_);
  return calls;
}

}  // namespace rondo
