#include "transport/ib/loans.h"

namespace rondo::ib {

void Loans::Add(std::uint64_t begin, Bytes memory, const Region& region) {
  loans_[(first_ + count_) % kMost] = {begin, memory, &region};
  ++count_;
}

Loans::Run Loans::At(std::uint64_t from, std::uint64_t until) const {
  for (std::size_t i = 0; i < count_; ++i) {
    const Loan& loan = loans_[(first_ + i) % kMost];
    if (loan.end() <= from) continue;
    if (loan.begin > from) return {.lent = {}, .end = std::min(until, loan.begin)};
    const std::uint64_t end = std::min(until, loan.end());
    return {
        .lent = loan.memory.subspan(static_cast<std::size_t>(from - loan.begin), static_cast<std::size_t>(end - from)),
        .region = loan.region,
        .end = end,
        .is_end = end == loan.end()};
  }
  return {.lent = {}, .end = until};
}

bool Loans::any_of_device() const {
  for (std::size_t i = 0; i < count_; ++i)
    if (loans_[(first_ + i) % kMost].region->of_device) return true;
  return false;
}

bool Loans::GiveBack(std::uint64_t until) {
  const std::uint64_t before = given_back_;
  while (count_ > 0 && loans_[first_].begin < until) {
    given_back_ = std::max(given_back_, std::min(until, loans_[first_].end()));
    if (loans_[first_].end() > until) break;
    first_ = (first_ + 1) % kMost;
    --count_;
  }
  return given_back_ != before;
}

}  // namespace rondo::ib
