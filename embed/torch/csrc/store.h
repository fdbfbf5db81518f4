// torch's store, for Rondo to meet through.
#pragma once

#include <rondo.h>

#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace rondo_torch {

// Lives as long as whatever was connected by it.
class TorchStore {
 public:
  explicit TorchStore(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}
  rondo_foreign_store Functions();
  c10d::Store& get() const { return *store_; }

 private:
  const c10::intrusive_ptr<c10d::Store> store_;
};

}  // namespace rondo_torch
