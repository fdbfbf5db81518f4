#include "transport/fault/fault_injector.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace rondo::fault {
namespace {

bool IsOnLanes(FaultKind kind) {
  return kind == FaultKind::kCut || kind == FaultKind::kCorrupt || kind == FaultKind::kSlice ||
         kind == FaultKind::kStall;
}

}  // namespace

FaultInjector::FaultInjector(FaultPlan plan, InjectorOptions options)
    : plan_(std::move(plan)),
      options_(std::move(options)),
      counts_(plan_.faults.size()),
      progress_(plan_.faults.size()),
      killed_(plan_.faults.size()) {}

std::uint64_t FaultInjector::fired() const {
  std::uint64_t all = 0;
  for (const FireCount& count : counts_) all += count.count();
  return all;
}

std::string FaultInjector::Describe() const {
  std::string text;
  for (std::size_t i = 0; i < plan_.faults.size(); ++i) {
    text += fmt::format("{}{} fired {} times", i == 0 ? "" : "\n", ToString(plan_.faults[i]), counts_[i].count());
  }
  return text;
}

std::vector<std::size_t> FaultInjector::OnLane(Rank from, Rank to, std::uint32_t lane) const {
  std::vector<std::size_t> on_lane;
  for (std::size_t i = 0; i < plan_.faults.size(); ++i) {
    const Fault& fault = plan_.faults[i];
    if (!IsOnLanes(fault.kind) || (fault.lane && *fault.lane != lane)) continue;
    if (fault.from == kNoRank || (fault.from == from && fault.to == to)) on_lane.push_back(i);
  }
  return on_lane;
}

std::byte FaultInjector::MaskOf(std::size_t fault) const {
  const Fault& corrupt = plan_.faults[fault];
  Random random(options_.seed ^ (std::uint64_t{fault} << 48) ^ corrupt.bytes);
  return std::byte{1} << corrupt.bit.value_or(static_cast<int>(random.Below(8)));
}

std::uint64_t FaultInjector::BytesUntilKill(Rank rank) const {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (std::size_t i = 0; i < plan_.faults.size(); ++i) {
    const Fault& fault = plan_.faults[i];
    if (fault.kind != FaultKind::kKill || fault.from != rank || counts_[i].count() != 0) continue;
    const std::uint64_t written = progress_[i].load(std::memory_order_relaxed);
    least = std::min(least, fault.bytes - std::min(fault.bytes, written));
  }
  return least;
}

void FaultInjector::Written(Rank rank, std::uint64_t bytes) {
  for (std::size_t i = 0; i < plan_.faults.size(); ++i) {
    const Fault& fault = plan_.faults[i];
    if (fault.kind != FaultKind::kKill || fault.from != rank) continue;
    const std::uint64_t before = progress_[i].fetch_add(bytes, std::memory_order_relaxed);
    if (before + bytes < fault.bytes) continue;
    // Another endpoint of this rank may have reached the byte first, and killed the rank.
    if (killed_[i].exchange(true)) continue;
    counts_[i].Fire();
    options_.kill(rank);
  }
}

bool FaultInjector::Drops(Rank from, Rank to) {
  for (std::size_t i = 0; i < plan_.faults.size(); ++i) {
    const Fault& fault = plan_.faults[i];
    if (fault.kind != FaultKind::kDropControl || fault.from != from || fault.to != to) continue;
    if (progress_[i].fetch_add(1, std::memory_order_relaxed) < fault.bytes) continue;
    counts_[i].Fire();
    return true;
  }
  return false;
}

std::optional<Error> FaultInjector::FailsOpen(Rank from, Rank to, std::uint32_t lane) {
  for (std::size_t i = 0; i < plan_.faults.size(); ++i) {
    const Fault& fault = plan_.faults[i];
    if (fault.kind != FaultKind::kFailOpen || fault.from != from || fault.to != to) continue;
    counts_[i].Fire();
    ErrorDetails details;
    details.code = fault.code;
    details.message = fmt::format("lane {} to rank {} cannot be opened (injected: {})", lane, to, ToString(fault));
    details.rank = from;
    details.culprit = to;
    return Error(std::move(details));
  }
  return std::nullopt;
}

}  // namespace rondo::fault
