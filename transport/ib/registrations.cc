#include "transport/ib/registrations.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "base/out_of_memory.h"

namespace rondo::ib {

void Registrations::FillReach(Entries& entries) {
  const std::byte* reach = nullptr;
  for (Entry& entry : entries) entry.reach = reach = std::max(reach, entry.end, std::less<>());
}

void Registrations::Add(const Region& region) {
  const std::byte* const begin = region.memory.data();
  const Entry added{begin, begin + region.memory.size(), nullptr, region.of_device, &region};
  const std::lock_guard lock(mutex_);
  auto entries = std::make_shared<Entries>();
  if (now_ != nullptr) *entries = Without(*now_, nullptr);
  const auto after = std::upper_bound(entries->begin(), entries->end(), begin,
                                      [](const std::byte* a, const Entry& b) { return std::less<>()(a, b.begin); });
  entries->insert(after, added);
  FillReach(*entries);
  now_ = std::move(entries);
  count_.fetch_add(1, std::memory_order_release);
}

void Registrations::Remove(const Region& region) {
  const std::lock_guard lock(mutex_);
  if (now_ == nullptr) return;
  const bool done = IfMemoryAllows([&] {
    auto entries = std::make_shared<Entries>(Without(*now_, &region));
    FillReach(*entries);
    now_ = entries->empty() ? nullptr : std::move(entries);
  });
  if (!done)
    for (const Entry& entry : *now_)
      if (entry.region == &region) std::atomic_ref(entry.region).store(nullptr, std::memory_order_relaxed);
  count_.fetch_add(1, std::memory_order_release);
}

Registrations::Entries Registrations::Without(const Entries& entries, const Region* region) {
  Entries left;
  left.reserve(entries.size() + 1);
  std::copy_if(entries.begin(), entries.end(), std::back_inserter(left),
               [&](const Entry& entry) { return entry.region != nullptr && entry.region != region; });
  return left;
}

void RegistrationsView::Refresh() {
  const std::lock_guard lock(all_->mutex_);
  entries_ = all_->now_;
  count_ = all_->count_.load(std::memory_order_relaxed);
  any_of_device_ = entries_ != nullptr &&
                   std::any_of(entries_->begin(), entries_->end(), [](const auto& entry) { return entry.of_device; });
}

const Region* RegistrationsView::Find(Bytes memory) {
  if (all_->count_.load(std::memory_order_acquire) != count_) [[unlikely]]
    Refresh();
  if (entries_ == nullptr) return nullptr;
  const std::byte* const begin = memory.data();
  const std::byte* const end = begin + memory.size();
  constexpr std::less<> below;  // may compare any two addresses, unlike <
  auto at = std::upper_bound(entries_->begin(), entries_->end(), begin,
                             [&](const std::byte* a, const Registrations::Entry& b) { return below(a, b.begin); });
  // If no regions overlap, the loop ends at its first entry, which is the nearest one that begins before the memory.
  while (at != entries_->begin()) {
    --at;
    if (below(at->reach, end)) return nullptr;
    if (at->of_device || below(at->end, end)) continue;
    if (const Region* const region = at->present()) return region;
  }
  return nullptr;
}

bool RegistrationsView::any_of_device() {
  if (all_->count_.load(std::memory_order_acquire) != count_) [[unlikely]]
    Refresh();
  return any_of_device_;
}

const Region* RegistrationsView::LastOfDevice(const std::byte* begin_below, const std::byte* end_above) const {
  constexpr std::less<> below;
  auto at = std::lower_bound(entries_->begin(), entries_->end(), begin_below,
                             [&](const Registrations::Entry& a, const std::byte* b) { return below(a.begin, b); });
  while (at != entries_->begin()) {
    --at;
    if (!below(end_above, at->reach)) return nullptr;
    if (!at->of_device || !below(end_above, at->end)) continue;
    if (const Region* const region = at->present()) return region;
  }
  return nullptr;
}

bool RegistrationsView::IsOfDevice(Bytes memory) {
  return any_of_device() && !memory.empty() && LastOfDevice(memory.data() + memory.size(), memory.data()) != nullptr;
}

RegistrationsView::Front RegistrationsView::FindOfDevice(Bytes memory) {
  if (!any_of_device() || memory.empty()) return {};
  const Region* const region = LastOfDevice(memory.data() + 1, memory.data());
  if (region == nullptr) return {};
  const auto left = static_cast<std::size_t>(region->memory.data() + region->memory.size() - memory.data());
  return {.region = region, .bytes = std::min(left, memory.size())};
}

}  // namespace rondo::ib
