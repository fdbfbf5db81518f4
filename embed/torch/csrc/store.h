// torch's store, for Rondo to meet through.
#pragma once

#include <rondo.h>

#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "making.h"

namespace rondo_torch {

// Its functions fail as soon as `making` does. Both outlive the rondo_connect that uses them.
class TorchStore {
 public:
  TorchStore(c10d::Store& store, const Making& making) : store_(store), making_(making) {}
  TorchStore(const TorchStore&) = delete;
  TorchStore& operator=(const TorchStore&) = delete;
  rondo_foreign_store Functions();
  c10d::Store& CheckedStore() const {
    making_.Check();
    return store_;
  }

 private:
  c10d::Store& store_;
  const Making& making_;
};

}  // namespace rondo_torch
