// Memory of users that the devices know: which region covers these bytes, and by what key a device knows it.
//
//   Registrations       of a transport: the regions there are now. Any thread.
//   RegistrationsView   of a lane: finds them. While nothing comes or goes, that is a load and a search.
//
// Memory of the host and of devices (transport/device_memory.h) is asked for apart: who finds the one may read it, who
// finds the other may not.
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
  std::vector<std::uint32_t> keys;  // local ones, by the place of the device among the transport's
  std::vector<std::uint32_t> remote_keys =
      {};                  // likewise, by which a peer's device may write there; or none: it may not
  bool of_device = false;  // of a GPU, say
};

class Registrations {
 public:
  // From now on it is found. It stays where it is, and as it is, until Remove has returned. Regions may overlap.
  void Add(const Region& region);
  // From now on it is not found. REQUIRES: it was added; nobody is sending from it.
  void Remove(const Region& region);

 private:
  friend class RegistrationsView;
  struct Entry {
    const std::byte* begin;
    const std::byte* end;
    const std::byte* reach;  // the furthest end up to this entry
    bool of_device;
    // Null: it was removed, when memory had run out. Who removes sees to it that nobody still sends from there: there
    // is nothing to publish to views on other threads.
    mutable const Region* region;
    const Region* present() const { return std::atomic_ref(region).load(std::memory_order_relaxed); }
  };
  using Entries = std::vector<Entry>;  // by their begin

  static void FillReach(Entries& entries);
  static Entries Without(const Entries& entries, const Region* region);

  mutable std::mutex mutex_;             // guards what follows
  std::shared_ptr<const Entries> now_;   // null: none
  std::atomic<std::uint64_t> count_{0};  // of changes. Its store publishes, to views, that there is another `now_`
};

// Thread rule: one thread at a time.
class RegistrationsView {
 public:
  explicit RegistrationsView(std::shared_ptr<const Registrations> all) : all_(std::move(all)) {}

  // Of the host's memory: a region in which all of `memory` lies; null: none. It stays as long as its owner does not
  // remove it.
  const Region* Find(Bytes memory);

  // Of memory of devices. Whether there is any; cheap.
  bool any_of_device();
  // Whether a byte of `memory` lies there.
  bool IsOfDevice(Bytes memory);
  // In which region its first byte lies, and how many from there on; null: none.
  struct Front {
    const Region* region = nullptr;
    std::size_t bytes = 0;
  };
  Front FindOfDevice(Bytes memory);

 private:
  void Refresh();
  // The last to begin of those that begin below and end above; null: none. REQUIRES: there are some.
  const Region* LastOfDevice(const std::byte* begin_below, const std::byte* end_above) const;

  std::shared_ptr<const Registrations> all_;
  std::shared_ptr<const Registrations::Entries> entries_;
  std::uint64_t count_ = 0;  // of all_, when they were taken
  bool any_of_device_ = false;
};

}  // namespace rondo::ib
