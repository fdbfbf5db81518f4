// How a communicator names its ranks in errors and logs.
//
// Inside a communicator, and in control messages, ranks have the communicator's numbers. Its user gets them as numbers
// of the job, with those of the group beside them. Immutable; any thread.
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
  // `hosts` by rank; no frame: the ranks are the job's.
  RankNames(Rank self, std::vector<std::string> hosts, std::shared_ptr<const RankFrame> frame);

  Rank self() const { return self_; }
  std::string NameOf(Rank rank) const { return NameOfRank(frame_.get(), rank); }
  // With the host of the culprit. Where memory ran out, this rank is the culprit, whichever rank gets the error.
  Error WithCulpritsHost(Error error) const;
  // As the user gets it.
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
