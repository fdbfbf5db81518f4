// Memory of users that the devices know: which region covers these bytes, and by what key a device knows it.
//
//   Registrations       of a transport: the regions there are now. Any thread.
//   RegistrationsView   of a lane: finds them. While nothing comes or goes, that is a load and a search.
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
    const Region* region;
  };
  using Entries = std::vector<Entry>;  // by their begin

  static void FillReach(Entries& entries);

  mutable std::mutex mutex_;             // guards what follows
  std::shared_ptr<const Entries> now_;   // null: none
  std::atomic<std::uint64_t> count_{0};  // of changes. Its store publishes, to views, that there is another `now_`
};

// Thread rule: one thread at a time.
class RegistrationsView {
 public:
  explicit RegistrationsView(std::shared_ptr<const Registrations> all) : all_(std::move(all)) {}

  // One in which all of `memory` lies; null: none. It stays as long as its owner does not remove it.
  const Region* Find(Bytes memory);

 private:
  void Refresh();

  std::shared_ptr<const Registrations> all_;
  std::shared_ptr<const Registrations::Entries> entries_;
  std::uint64_t count_ = 0;  // of all_, when they were taken
};

}  // namespace rondo::ib
