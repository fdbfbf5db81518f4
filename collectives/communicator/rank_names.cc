#include "collectives/communicator/rank_names.h"

#include <utility>

#include "base/out_of_memory.h"
#include "collectives/communicator/peer_errors.h"

namespace rondo {

RankNames::RankNames(Rank self, std::vector<std::string> hosts, std::shared_ptr<const RankFrame> frame)
    : self_(self), hosts_(std::move(hosts)), frame_(std::move(frame)) {}

Error RankNames::WithCulpritsHost(Error error) const {
  if (error.code() == ErrorCode::kOutOfMemory && error.culprit() == kNoRank)
    error = error.With([&](ErrorDetails& d) { d.culprit = self_; });
  const Rank culprit = error.culprit();
  if (culprit < 0 || culprit >= static_cast<Rank>(hosts_.size()) || !error.details().host.empty()) return error;
  return error.With([&](ErrorDetails& d) { d.host = hosts_[static_cast<std::size_t>(culprit)]; });
}

Error RankNames::FramedError(const Error& error) const {
  if (frame_ == nullptr || error.details().frame != nullptr) return error;
  Error framed = error;
  IfMemoryAllows([&] {
    framed = error.With([&](ErrorDetails& d) {
      d.message = frame_->Reword(d.message);
      d.collective = frame_->Reword(d.collective);
      // If the message is kParentFailed, first_cause names ranks of the parent, and the parent has already reworded it.
      if (d.message != kParentFailed) d.first_cause = frame_->Reword(d.first_cause);
      d.frame = frame_;
    });
  });
  return framed;
}

}  // namespace rondo
