#include "transport/ib/advertised_buffers.h"

#include <limits>

#include "base/check.h"

namespace rondo::ib {

// ---- the receiver ----

void AdvertisedBuffers::Add(std::uint64_t begin, MutableBytes memory, std::uint32_t key) {
  RONDO_CHECK(begin >= reach_, "a buffer at stream offset {}, behind others up to {}", begin, reach_);
  Number(end_++) = {.begin = begin, .memory = memory, .key = key};
  reach_ = begin + memory.size();
}

std::uint32_t AdvertisedBuffers::Unadvertised(std::uint64_t arrived) {
  while (unadvertised_ != end_ && Number(unadvertised_).end() <= arrived) ++unadvertised_;
  return static_cast<std::uint32_t>(end_ - unadvertised_);
}

Grant AdvertisedBuffers::UnadvertisedAt(std::uint32_t i) const {
  const Buffer& buffer = Number(unadvertised_ + i);
  return {.begin = buffer.begin,
          .bytes = buffer.memory.size(),
          .address = reinterpret_cast<std::uintptr_t>(buffer.memory.data()),
          .key = buffer.key};
}

void AdvertisedBuffers::OnAdvertised(std::uint32_t count) {
  for (; count > 0; --count) Number(unadvertised_++).advertised = true;
}

bool AdvertisedBuffers::Take(std::uint64_t offset, std::uint64_t bytes) {
  for (std::uint64_t n = first_; n != unadvertised_; ++n) {
    Buffer& buffer = Number(n);
    if (buffer.end() <= offset) continue;
    if (!buffer.advertised || buffer.begin > offset || bytes > buffer.end() - offset) return false;
    if (buffer.direct_begin == buffer.direct_end) buffer.direct_begin = buffer.direct_end = offset;
    if (buffer.direct_end != offset) return false;
    buffer.direct_end += bytes;
    return true;
  }
  return false;
}

AdvertisedBuffers::Run AdvertisedBuffers::At(std::uint64_t from, std::uint64_t until) const {
  for (std::uint64_t n = first_; n != end_; ++n) {
    const Buffer& buffer = Number(n);
    if (buffer.begin >= until) break;
    if (buffer.direct_end <= from) continue;
    if (buffer.direct_begin > from) return {.direct = {}, .end = std::min(until, buffer.direct_begin)};
    const std::uint64_t end = std::min(until, buffer.direct_end);
    return {.direct = Bytes(buffer.memory)
                          .subspan(static_cast<std::size_t>(from - buffer.begin), static_cast<std::size_t>(end - from)),
            .end = end};
  }
  return {.direct = {}, .end = until};
}

void AdvertisedBuffers::Disconnect() {
  for (std::uint64_t n = first_; n != end_; ++n) Number(n).advertised = false;
  unadvertised_ = end_;
}

// ---- the sender ----

bool Grants::Add(const Grant& grant, std::uint64_t posted) {
  Pass(posted);
  if (end_ - first_ == kMaxAdvertised || grant.bytes == 0 || grant.begin < reach_ ||
      grant.bytes > std::numeric_limits<std::uint64_t>::max() - grant.begin)
    return false;
  grants_[end_++ % kMaxAdvertised] = grant;
  reach_ = grant.end();
  return true;
}

const Grant* Grants::At(std::uint64_t from, std::uint64_t& until) {
  Pass(from);
  if (first_ == end_) return nullptr;
  const Grant& next = grants_[first_ % kMaxAdvertised];
  const bool inside = next.begin <= from;
  until = std::min(until, inside ? next.end() : next.begin);
  return inside ? &next : nullptr;
}

}  // namespace rondo::ib
