// How a communicator names its ranks in errors and logs.
//
// Inside a communicator, and in control messages, ranks are numbered as in the communicator. Errors for its user
// contain the ranks' numbers in the job, with their numbers in the group after them. Immutable; any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "base/rank_frame.h"
#include "base/result.h"

namespace rondo {

class RankNames {
 public:
  // `hosts`: by rank. `frame`: null if the communicator's ranks are the job's.
  RankNames(Rank self, std::vector<std::string> hosts, std::shared_ptr<const RankFrame> frame);

  Rank self() const { return self_; }
  std::string NameOf(Rank rank) const { return NameOfRank(frame_.get(), rank); }
  // Adds the culprit's host to the error. If memory ran out and the error has no culprit, this rank becomes the
  // culprit.
  Error WithCulpritsHost(Error error) const;
  // The error as the user gets it, with ranks of the job.
  Error FramedError(const Error& error) const;
  template <typename Returned>
  Returned Framed(Returned returned) const {
    if (returned || frame_ == nullptr) [[likely]]
      return returned;
    return Fail(FramedError(returned.error()));
  }

 private:
  const Rank self_;
  const std::vector<std::string> hosts_;
  const std::shared_ptr<const RankFrame> frame_;
};

}  // namespace rondo
