#include "transport/ib/zero_copy_sends.h"

namespace rondo::ib {

void ZeroCopySends::Add(std::uint64_t begin, Bytes memory, const Region& region) {
  sends_[(first_ + count_) % kMax] = {begin, memory, &region};
  ++count_;
}

ZeroCopySends::Run ZeroCopySends::At(std::uint64_t from, std::uint64_t until) const {
  for (std::size_t i = 0; i < count_; ++i) {
    const Send& send = sends_[(first_ + i) % kMax];
    if (send.end() <= from) continue;
    if (send.begin > from) return {.memory = {}, .end = std::min(until, send.begin)};
    const std::uint64_t end = std::min(until, send.end());
    return {.memory =
                send.memory.subspan(static_cast<std::size_t>(from - send.begin), static_cast<std::size_t>(end - from)),
            .region = send.region,
            .end = end,
            .is_end = end == send.end()};
  }
  return {.memory = {}, .end = until};
}

bool ZeroCopySends::any_of_device() const {
  for (std::size_t i = 0; i < count_; ++i)
    if (sends_[(first_ + i) % kMax].region->of_device) return true;
  return false;
}

bool ZeroCopySends::GiveBack(std::uint64_t until) {
  const std::uint64_t before = given_back_;
  while (count_ > 0 && sends_[first_].begin < until) {
    given_back_ = std::max(given_back_, std::min(until, sends_[first_].end()));
    if (sends_[first_].end() > until) break;
    first_ = (first_ + 1) % kMax;
    --count_;
  }
  return given_back_ != before;
}

}  // namespace rondo::ib
