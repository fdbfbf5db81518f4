// A group while this process makes it: what ends that early.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "interrupt.h"

namespace rondo_torch {

// Thread rule: one thread makes one group. Other threads may make others meanwhile.
class Making {
 public:
  // Throws, and has the other one fail too, if another thread makes a group on the same store under the same name and
  // as the same rank: nothing would say which of the other ranks' groups belongs to which. `given_up` outlives this.
  Making(c10d::Store& store, int rank, const GivenUp& given_up);
  ~Making();
  Making(const Making&) = delete;
  Making& operator=(const Making&) = delete;

  // Throws if it is of no use to go on: the caller was interrupted, a second group was begun at once, or the file of a
  // FileStore is gone.
  void Check() const;

 private:
  const std::string name_;  // of the store, with its prefixes, and the rank
  const std::string file_;  // of a FileStore that has read from it; "": there is none
  const GivenUp& given_up_;
  std::shared_ptr<std::atomic<bool>> is_second_begun_;
};

}  // namespace rondo_torch
