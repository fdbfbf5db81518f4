#include "transport/ib/windows.h"

#include <limits>

#include "base/check.h"

namespace rondo::ib {

// ---- the receiver ----

void Windows::Add(std::uint64_t begin, MutableBytes memory, std::uint32_t key) {
  RONDO_CHECK(begin >= reach_, "a window at stream offset {}, behind others up to {}", begin, reach_);
  Number(end_++) = {.begin = begin, .memory = memory, .key = key};
  reach_ = begin + memory.size();
}

std::uint32_t Windows::Untold(std::uint64_t arrived) {
  while (untold_ != end_ && Number(untold_).end() <= arrived) ++untold_;
  return static_cast<std::uint32_t>(end_ - untold_);
}

Grant Windows::UntoldAt(std::uint32_t i) const {
  const Window& window = Number(untold_ + i);
  return {.begin = window.begin,
          .bytes = window.memory.size(),
          .address = reinterpret_cast<std::uintptr_t>(window.memory.data()),
          .key = window.key};
}

void Windows::Told(std::uint32_t count) {
  for (; count > 0; --count) Number(untold_++).told = true;
}

bool Windows::Take(std::uint64_t offset, std::uint64_t bytes) {
  for (std::uint64_t n = first_; n != untold_; ++n) {
    Window& window = Number(n);
    if (window.end() <= offset) continue;
    if (!window.told || window.begin > offset || bytes > window.end() - offset) return false;
    if (window.direct_begin == window.direct_end) window.direct_begin = window.direct_end = offset;
    if (window.direct_end != offset) return false;
    window.direct_end += bytes;
    return true;
  }
  return false;
}

Windows::Run Windows::At(std::uint64_t from, std::uint64_t until) const {
  for (std::uint64_t n = first_; n != end_; ++n) {
    const Window& window = Number(n);
    if (window.begin >= until) break;
    if (window.direct_end <= from) continue;
    if (window.direct_begin > from) return {.direct = {}, .end = std::min(until, window.direct_begin)};
    const std::uint64_t end = std::min(until, window.direct_end);
    return {.direct = Bytes(window.memory)
                          .subspan(static_cast<std::size_t>(from - window.begin), static_cast<std::size_t>(end - from)),
            .end = end};
  }
  return {.direct = {}, .end = until};
}

void Windows::Disconnect() {
  for (std::uint64_t n = first_; n != end_; ++n) Number(n).told = false;
  untold_ = end_;
}

// ---- the sender ----

bool Grants::Add(const Grant& grant, std::uint64_t posted) {
  Pass(posted);
  if (end_ - first_ == kMostWindows || grant.bytes == 0 || grant.begin < reach_ ||
      grant.bytes > std::numeric_limits<std::uint64_t>::max() - grant.begin)
    return false;
  grants_[end_++ % kMostWindows] = grant;
  reach_ = grant.end();
  return true;
}

const Grant* Grants::At(std::uint64_t from, std::uint64_t& until) {
  Pass(from);
  if (first_ == end_) return nullptr;
  const Grant& next = grants_[first_ % kMostWindows];
  const bool inside = next.begin <= from;
  until = std::min(until, inside ? next.end() : next.begin);
  return inside ? &next : nullptr;
}

}  // namespace rondo::ib
