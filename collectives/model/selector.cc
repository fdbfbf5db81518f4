#include "collectives/model/selector.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "base/check.h"
#include "collectives/schedule/layout.h"

namespace rondo {
namespace {

constexpr const char* kMeasured = "the fastest as measured";
constexpr const char* kPredicted = "the fastest as predicted";
constexpr const char* kOnlyOne = "the only one that serves this call";

// The sizes are 1, 2^(1/4), 2^(2/4), 2^(3/4), ... bytes. Algorithms are compared at every second size, up to 2^44
// bytes. If the choice differs between two compared sizes, it changes at the size between them. The factors are
// constants, so that the choice changes at the same byte on every machine.
constexpr int kDoublings = 44;
constexpr std::array kQuarters{1.0, 1.189207115002721, 1.4142135623730951, 1.681792830507429};
std::uint64_t SizeOfQuarter(int quarter) {
  return static_cast<std::uint64_t>(std::ldexp(kQuarters[static_cast<std::size_t>(quarter % 4)], quarter / 4));
}

// Times that differ by a smaller factor count as equal. Noise in the measurements must not make the choice alternate
// between sizes, and must not decide between equally fast algorithms.
constexpr double kNoise = 1.05;

std::size_t KindOf(const Call& call) {
  const bool reproducible = call.reproducible && Reduces(call.collective);
  const bool ordered = !call.commutative && Reduces(call.collective);
  return static_cast<std::size_t>(call.collective) * 8 + (reproducible ? 4 : 0) + (ordered ? 2 : 0) +
         (call.equal_counts ? 0 : 1);
}

// Whether `a` is ranked before `b`.
bool IsFaster(const Candidate& a, const Candidate& b) { return a.measured != b.measured ? a.measured : a.us < b.us; }

std::string NamesOfFit(const Call& call) {
  std::string names;
  for (const AlgorithmEntry& entry : AllAlgorithms())
    if (entry.collective == call.collective && !Unfit(entry, call))
      names += fmt::format("{}{}", names.empty() ? "" : ", ", Name(entry.algorithm));
  return names.empty() ? "none" : names;
}

}  // namespace

// The choice for each range of sizes: each entry is for the sizes above the entry before it, up to `up_to_bytes`.
struct Selector::Table {
  struct Stretch {
    std::uint64_t up_to_bytes;
    Selection selection;
  };
  // In ascending order. The last entry covers all larger sizes. Empty: no algorithm supports the call.
  std::vector<Stretch> stretches;
};

std::optional<const char*> Unfit(const AlgorithmEntry& entry, const Call& call) {
  if (Reduces(call.collective) && call.reproducible && !entry.traits.left_fold)
    return "it does not reduce by the left fold in rank order, which reproducible mode needs";
  if (Reduces(call.collective) && !call.commutative && !entry.traits.rank_order && !entry.traits.left_fold)
    return "it does not keep operands in rank order, but the operation does not commute";
  if (!call.equal_counts && entry.traits.needs_equal_counts) return "it needs equal counts";
  return std::nullopt;
}

Selector::Selector(std::shared_ptr<const Profile> profile, Topology topology)
    : profile_(std::move(profile)),
      topology_(std::move(topology)),
      oversubscribed_(topology_.oversubscribed()),
      even_hosts_(topology_.even_hosts()),
      costs_(AllAlgorithms().size()) {}

Selector::~Selector() = default;

Result<Selection> Selector::Choose(std::optional<Algorithm> wanted, const Call& call) const {
  if (!wanted) {
    for (const Table::Stretch& stretch : TableOf(call).stretches)
      if (call.bytes <= stretch.up_to_bytes) return stretch.selection;
    return Fail(ErrorCode::kUnsupported, "no algorithm supports this {}", Name(call.collective));
  }
  const AlgorithmEntry* const entry = FindAlgorithm(call.collective, *wanted);
  if (entry == nullptr)
    return Fail(ErrorCode::kInvalidArgument, "algorithm {} does not support {}", Name(*wanted), Name(call.collective));
  if (const auto unfit = Unfit(*entry, call))
    return Fail(ErrorCode::kInvalidArgument, "algorithm {} does not support this {}: {} (these do: {})", Name(*wanted),
                Name(call.collective), *unfit, NamesOfFit(call));
  return Selection{*wanted, "asked for"};
}

std::vector<Candidate> Selector::Candidates(const Call& call) const {
  const std::lock_guard lock(mutex_);
  return CandidatesLocked(call);
}

Candidate Selector::Expect(Algorithm algorithm, const Call& call) const {
  const AlgorithmEntry* const entry = FindAlgorithm(call.collective, algorithm);
  RONDO_CHECK(entry != nullptr);
  const std::lock_guard lock(mutex_);
  return ExpectLocked(*entry, call);
}

const ScheduleCost& Selector::CostOfEntry(const AlgorithmEntry& entry) const {
  auto& cost = costs_[static_cast<std::size_t>(&entry - AllAlgorithms().data())];
  if (!cost) cost = CostOf(entry, topology_);
  return *cost;
}

Candidate Selector::ExpectLocked(const AlgorithmEntry& entry, const Call& call) const {
  const MeasuredWorld* const world =
      profile_->Find(call.collective, topology_.world_size(), even_hosts_, oversubscribed_);
  if (const auto us = world != nullptr ? world->Us(entry.algorithm, call.bytes) : std::nullopt)
    return {entry.algorithm, *us, true};
  const auto bytes = static_cast<double>(call.bytes);
  return {entry.algorithm, PredictUs(CostOfEntry(entry), oversubscribed_, profile_->costs, bytes), false};
}

std::vector<Candidate> Selector::CandidatesLocked(const Call& call) const {
  std::vector<Candidate> candidates;
  for (const AlgorithmEntry& entry : AllAlgorithms())
    if (entry.collective == call.collective && !Unfit(entry, call)) candidates.push_back(ExpectLocked(entry, call));
  std::stable_sort(candidates.begin(), candidates.end(), IsFaster);
  return candidates;
}

const Selector::Table& Selector::TableOf(const Call& call) const {
  std::atomic<const Table*>& table = tables_[KindOf(call)];
  const Table* made = table.load(std::memory_order_acquire);
  if (made != nullptr) return *made;
  const std::lock_guard lock(mutex_);
  made = table.load(std::memory_order_relaxed);
  if (made == nullptr) {
    made = made_.emplace_back(MakeTable(call)).get();
    table.store(made, std::memory_order_release);
  }
  return *made;
}

std::unique_ptr<const Selector::Table> Selector::MakeTable(Call call) const {
  auto table = std::make_unique<Table>();
  std::vector<Table::Stretch>& stretches = table->stretches;
  for (int i = 0; i <= 2 * kDoublings; ++i) {
    call.bytes = i == 0 ? 0 : SizeOfQuarter(2 * i);
    const std::vector<Candidate> candidates = CandidatesLocked(call);
    if (candidates.empty()) return table;
    // Among equally fast candidates, the one with the lowest number is chosen. A measured one that was chosen for the
    // size before stays chosen, because otherwise noise would make the choice alternate. A predicted one does not: a
    // large vector must not keep the algorithm that is best for small ones.
    const Candidate* best = nullptr;
    for (const Candidate& candidate : candidates) {
      const Candidate& fastest = candidates.front();
      if (candidate.measured != fastest.measured || candidate.us > fastest.us * kNoise) continue;
      const bool stays =
          candidate.measured && !stretches.empty() && candidate.algorithm == stretches.back().selection.algorithm;
      if (best == nullptr || stays || candidate.algorithm < best->algorithm) best = &candidate;
      if (stays) break;
    }
    if (stretches.empty() || stretches.back().selection.algorithm != best->algorithm) {
      if (!stretches.empty()) stretches.back().up_to_bytes = SizeOfQuarter(2 * i - 1);
      const char* const reason = candidates.size() == 1 ? kOnlyOne : best->measured ? kMeasured : kPredicted;
      stretches.push_back({0, {best->algorithm, reason}});
    }
  }
  stretches.back().up_to_bytes = std::numeric_limits<std::uint64_t>::max();
  return table;
}

}  // namespace rondo
