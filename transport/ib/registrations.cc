#include "transport/ib/registrations.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/out_of_memory.h"

namespace rondo::ib {

void Registrations::FillReach(Entries& entries) {
  const std::byte* reach = nullptr;
  for (Entry& entry : entries) entry.reach = reach = std::max(reach, entry.end, std::less<>());
}

void Registrations::Add(const Region& region) {
  const std::byte* const begin = region.memory.data();
  const Entry added{begin, begin + region.memory.size(), nullptr, &region};
  const std::lock_guard lock(mutex_);
  auto entries = now_ == nullptr ? std::make_shared<Entries>() : std::make_shared<Entries>(*now_);
  const auto after = std::upper_bound(entries->begin(), entries->end(), begin,
                                      [](const std::byte* a, const Entry& b) { return std::less<>()(a, b.begin); });
  entries->insert(after, added);
  FillReach(*entries);
  now_ = std::move(entries);
  count_.fetch_add(1, std::memory_order_release);
}

void Registrations::Remove(const Region& region) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const Entries> left;
  // Where memory runs out none is found any more: what lies in them is copied.
  IfMemoryAllows([&] {
    if (now_ == nullptr) return;
    auto entries = std::make_shared<Entries>(*now_);
    std::erase_if(*entries, [&](const Entry& entry) { return entry.region == &region; });
    FillReach(*entries);
    if (!entries->empty()) left = std::move(entries);
  });
  now_ = std::move(left);
  count_.fetch_add(1, std::memory_order_release);
}

void RegistrationsView::Refresh() {
  const std::lock_guard lock(all_->mutex_);
  entries_ = all_->now_;
  count_ = all_->count_.load(std::memory_order_relaxed);
}

const Region* RegistrationsView::Find(Bytes memory) {
  if (all_->count_.load(std::memory_order_acquire) != count_) [[unlikely]]
    Refresh();
  if (entries_ == nullptr) return nullptr;
  const std::byte* const begin = memory.data();
  const std::byte* const end = begin + memory.size();
  constexpr std::less<> below;  // of addresses, whatever they belong to
  auto at = std::upper_bound(entries_->begin(), entries_->end(), begin,
                             [&](const std::byte* a, const Registrations::Entry& b) { return below(a, b.begin); });
  // The nearest that begins in front is the one, unless regions overlap.
  while (at != entries_->begin()) {
    --at;
    if (!below(at->end, end)) return at->region;
    if (below(at->reach, end)) return nullptr;
  }
  return nullptr;
}

}  // namespace rondo::ib
