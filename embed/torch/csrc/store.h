// Makes a store of torch usable for Rondo's rendezvous.
#pragma once

#include <rondo.h>

#include <atomic>
#include <memory>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "making.h"

namespace rondo_torch {

// Its functions fail as soon as making.Check() throws. `making` may be destroyed after rondo_connect has returned and
// EndMaking was called.
class TorchStore {
 public:
  TorchStore(c10::intrusive_ptr<c10d::Store> store, const Making& making)
      : store_(std::move(store)), making_(&making) {}
  TorchStore(const TorchStore&) = delete;
  TorchStore& operator=(const TorchStore&) = delete;
  // Returns callbacks that keep `store` alive until Rondo calls `release`.
  static rondo_store_callbacks Functions(const std::shared_ptr<TorchStore>& store);
  void EndMaking() { making_ = nullptr; }
  c10d::Store& CheckedStore() const {
    if (const Making* const making = making_) making->Check();
    return *store_;
  }

 private:
  const c10::intrusive_ptr<c10d::Store> store_;
  std::atomic<const Making*> making_;  // null: the group has been made
};

}  // namespace rondo_torch
