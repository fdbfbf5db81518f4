// Memory of users that the devices know: which region has given bytes, and the key of each device for it.
//
//   Registrations       of a transport: the present regions. Any thread.
//   RegistrationsView   of a lane: finds them. While no region is added or removed, that takes a load and a search.
//
// Memory of the host and of devices (transport/device_memory.h) is found by separate functions, since the CPU may read
// the one but not the other.
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
  std::vector<std::uint32_t> keys;              // local keys, by the index of the device among the transport's
  std::vector<std::uint32_t> remote_keys = {};  // keys for a peer's device to write there; empty: it may not
  bool of_device = false;                       // of a GPU, for example
};

class Registrations {
 public:
  // From now on it is found. It must neither move nor change until Remove has returned. Regions may overlap.
  void Add(const Region& region);
  // From now on it is not found. REQUIRES: it was added; no lane sends from it.
  void Remove(const Region& region);

 private:
  friend class RegistrationsView;
  struct Entry {
    const std::byte* begin;
    const std::byte* end;
    const std::byte* reach;  // the furthest end up to this entry
    bool of_device;
    // Null: it was removed when memory had run out. The caller of Remove guarantees that no lane sends from it, so
    // views on other threads need not learn of it.
    mutable const Region* region;
    const Region* present() const { return std::atomic_ref(region).load(std::memory_order_relaxed); }
  };
  using Entries = std::vector<Entry>;  // by their begin

  static void FillReach(Entries& entries);
  static Entries Without(const Entries& entries, const Region* region);

  mutable std::mutex mutex_;             // guards the fields below
  std::shared_ptr<const Entries> now_;   // null: none
  std::atomic<std::uint64_t> count_{0};  // the number of changes. Its store publishes a new `now_` to views
};

// Thread rule: one thread at a time.
class RegistrationsView {
 public:
  explicit RegistrationsView(std::shared_ptr<const Registrations> all) : all_(std::move(all)) {}

  // For the host's memory: a region that has all of `memory`; null: none does. The pointer is valid until its owner
  // removes the region.
  const Region* Find(Bytes memory);

  // For memory of devices: whether any is registered; cheap.
  bool any_of_device();
  // Whether a byte of `memory` is in such a region.
  bool IsOfDevice(Bytes memory);
  // The region that has the first byte of `memory`, and how many bytes from there on; null: none does.
  struct Front {
    const Region* region = nullptr;
    std::size_t bytes = 0;
  };
  Front FindOfDevice(Bytes memory);

 private:
  void Refresh();
  // Of the regions that begin below and end above, the one that begins last; null: none. REQUIRES: there are regions.
  const Region* LastOfDevice(const std::byte* begin_below, const std::byte* end_above) const;

  std::shared_ptr<const Registrations> all_;
  std::shared_ptr<const Registrations::Entries> entries_;
  std::uint64_t count_ = 0;  // of changes, when all_ was taken
  bool any_of_device_ = false;
};

}  // namespace rondo::ib
