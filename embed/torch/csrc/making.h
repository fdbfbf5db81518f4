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
  // thread fails too, because ranks could not decide which of their groups belong together. `given_up` must outlive
  // this object.
  Making(c10d::Store& store, int rank, const GivenUp& given_up);
  ~Making();
  Making(const Making&) = delete;
  Making& operator=(const Making&) = delete;

  // Throws if continuing is useless: the caller was interrupted, another thread began a group with the same name, or
  // the file of a FileStore was removed.
  void Check() const;

 private:
  const std::string name_;  // identifies the group that is being made: the store's name with its prefixes, and the rank
  const std::string file_;  // the path of a FileStore that has already read its file; "": no such store
  const GivenUp& given_up_;
  std::shared_ptr<std::atomic<bool>> is_second_begun_;
};

}  // namespace rondo_torch
