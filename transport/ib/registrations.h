// The registered memory of users: which region contains given bytes, and the region's key for each device.
//
//   Registrations       one per transport: the regions that are registered now. Any thread may use it.
//   RegistrationsView   one per lane: finds regions. If no region was added or removed since its latest call, a call
//                       costs one atomic load and a search.
//
// Memory of the host and of devices (transport/device_memory.h) is found by separate functions, because the CPU may
// read the host's memory but not a device's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/bytes.h"

namespace rondo::ib {

struct Region {
  Bytes memory;
  std::vector<std::uint32_t> keys;  // local keys, by the index of the device in the transport's list
  // Keys that let a peer's device write to the memory; empty: no peer can write to it.
  std::vector<std::uint32_t> remote_keys = {};
  bool of_device = false;  // memory of a device, such as a GPU
};

class Registrations {
 public:
  // Makes `region` visible to all views. The object must neither move nor change until Remove has returned. Regions may
  // overlap.
  void Add(const Region& region);
  // After the call no view finds `region`. REQUIRES: it was added; no lane sends from it.
  void Remove(const Region& region);

 private:
  friend class RegistrationsView;
  struct Entry {
    const std::byte* begin;
    const std::byte* end;
    const std::byte* reach;  // the highest `end` of all entries up to this one
    bool of_device;
    // Null: the region was removed when there was no memory for a new list without it. The caller of Remove guarantees
    // that no lane sends from it, so views on other threads need not notice the removal.
    mutable const Region* region;
    const Region* present() const { return std::atomic_ref(region).load(std::memory_order_relaxed); }
  };
  using Entries = std::vector<Entry>;  // sorted by their begin

  static void FillReach(Entries& entries);
  static Entries Without(const Entries& entries, const Region* region);

  mutable std::mutex mutex_;             // guards the fields below
  std::shared_ptr<const Entries> now_;   // null: there are no regions
  std::atomic<std::uint64_t> count_{0};  // counts the changes; a store to it makes a new `now_` visible to views
};

// Thread rule: one thread at a time.
class RegistrationsView {
 public:
  explicit RegistrationsView(std::shared_ptr<const Registrations> all) : all_(std::move(all)) {}

  // For host memory: a region that contains all of `memory`; null: there is none. The pointer is valid until the region
  // is removed.
  const Region* Find(Bytes memory);

  // Whether any device memory is registered. A cheap call.
  bool any_of_device();
  // Whether any byte of `memory` is in a region of a device.
  bool IsOfDevice(Bytes memory);
  // The device region that contains the first byte of `memory`, and the number of bytes of `memory` that this region
  // contains. Null: there is no such region.
  struct Front {
    const Region* region = nullptr;
    std::size_t bytes = 0;
  };
  Front FindOfDevice(Bytes memory);

 private:
  void Refresh();
  // Among the device regions that begin below `begin_below` and end above `end_above`: the region with the highest
  // begin; null: there is none. REQUIRES: there are regions.
  const Region* LastOfDevice(const std::byte* begin_below, const std::byte* end_above) const;

  std::shared_ptr<const Registrations> all_;
  std::shared_ptr<const Registrations::Entries> entries_;
  std::uint64_t count_ = 0;  // the number of changes when all_ was last read
  bool any_of_device_ = false;
};

}  // namespace rondo::ib
