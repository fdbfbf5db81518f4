// Conditions that end the construction of a group early.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "interrupt.h"

namespace rondo_torch {

// Thread rule: one thread makes one group. Other threads may make other groups at the same time.
class Making {
 public:
  // Throws if another thread is making a group on the same store, under the same name and as the same rank; that other
  // thread fails too. Ranks could not decide which of their groups belong together. `given_up` must outlive this
  // object.
  Making(c10d::Store& store, int rank, const GivenUp& given_up);
  ~Making();
  Making(const Making&) = delete;
  Making& operator=(const Making&) = delete;

  // Throws if continuing is useless: the caller was interrupted, a second such group was begun, or the file of a
  // FileStore was removed.
  void Check() const;

 private:
  const std::string name_;  // the store's name with its prefixes, and the rank
  const std::string file_;  // the file of a FileStore that has read from it; "": none
  const GivenUp& given_up_;
  std::shared_ptr<std::atomic<bool>> is_second_begun_;
};

}  // namespace rondo_torch
