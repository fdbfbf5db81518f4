// A store for tests with an Explorer. Every call of the store is a step of the Explorer, and only the Explorer's
// schedule advances the clock. So agreements can be tested under every order of their calls, and a process can die
// between any two calls.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "rendezvous/store.h"
#include "rendezvous/store_state.h"
#include "tests/support/explorer.h"

namespace rondo {

// The process that dies, and the number of the call before which it dies. Calls count from 0.
struct Death {
  std::size_t process = 0;
  int before_call = 0;
};

class ExploredStore final : public Store {
 public:
  // Thrown in the process that dies. The test catches it at the end of the process.
  struct Died {};

  // With `patient`, time passes only when all living processes wait for missing keys. So no living process is late.
  // Without `patient`, a Wait for a missing key ends at once as if its deadline had passed. This simulates processes
  // that are arbitrarily slow.
  ExploredStore(Explorer& explorer, ManualClock& clock, std::size_t processes, std::optional<Death> death, bool patient)
      : explorer_(explorer), clock_(clock), death_(death), patient_(patient), processes_(processes) {}

  // Records that the process makes no more calls.
  void End() { Self().ended = true; }
  bool death_came() const { return death_came_; }

  std::string Describe() const override { return "explored"; }
  Status SetMany(std::span<const KeyValue> entries, TimePoint) override {
    Enter();
    return state_.Set(entries);
  }
  Result<std::vector<std::optional<std::string>>> GetMany(std::span<const std::string> keys, TimePoint) override {
    Enter();
    std::vector<std::optional<std::string>> values;
    for (const StoreState::Value& value : state_.Get(keys))
      values.push_back(value == nullptr ? std::nullopt : std::optional(*value));
    return values;
  }
  Result<std::vector<std::string>> Wait(std::span<const std::string> keys, const WaitOptions& options) override {
    Enter();
    Process& self = Self();
    self.wait = PendingWait{{keys.begin(), keys.end()}, options.cancel_key, options.deadline};
    if (patient_) {
      const std::size_t id = explorer_.self();
      explorer_.BlockUntil([this, id] { return IsOver(*processes_[id].wait) || TimeMayPassFor(id); });
    }
    const PendingWait wait = *self.wait;
    self.wait.reset();
    const auto values = state_.Get(keys);
    if (std::find(values.begin(), values.end(), nullptr) == values.end()) {
      std::vector<std::string> copies;
      for (const StoreState::Value& value : values) copies.push_back(*value);
      return copies;
    }
    if (IsOver(wait)) return Fail(ErrorCode::kAborted, "{}", *state_.Get({&wait.cancel_key, 1}).front());
    if (clock_.Now() < wait.deadline) clock_.AdvanceTo(wait.deadline);
    return Fail(ErrorCode::kStoreTimeout, "missing: {}", keys.front());
  }
  Result<std::int64_t> Add(std::string_view key, std::int64_t delta, TimePoint) override {
    Enter();
    return state_.Add(key, delta);
  }
  Result<CompareSetResult> CompareSet(std::string_view key, std::optional<std::string_view> expected,
                                      std::string_view desired, TimePoint) override {
    Enter();
    return state_.CompareSet(key, expected, desired);
  }
  Result<std::size_t> DeleteMany(std::span<const std::string> keys, TimePoint) override {
    Enter();
    return state_.Delete(keys);
  }

 private:
  struct PendingWait {
    std::vector<std::string> keys;
    std::string cancel_key;
    TimePoint deadline;
  };
  struct Process {
    int calls = 0;
    bool ended = false;
    std::optional<PendingWait> wait;
  };

  Process& Self() { return processes_[explorer_.self()]; }

  void Enter() {
    explorer_.Step();
    Process& self = Self();
    if (death_ && death_->process == explorer_.self() && death_->before_call == self.calls) {
      death_came_ = true;
      throw Died();
    }
    ++self.calls;
  }

  bool IsOver(const PendingWait& wait) const {
    if (!wait.cancel_key.empty() && state_.Get({&wait.cancel_key, 1}).front() != nullptr) return true;
    const auto values = state_.Get(wait.keys);
    return std::find(values.begin(), values.end(), nullptr) == values.end();
  }

  // Whether all living processes other than `id` wait for missing keys, none of them with an earlier deadline than
  // `id`.
  bool TimeMayPassFor(std::size_t id) const {
    for (std::size_t other = 0; other < processes_.size(); ++other) {
      const Process& one = processes_[other];
      if (one.ended || other == id) continue;
      if (!one.wait || IsOver(*one.wait)) return false;
      const TimePoint theirs = one.wait->deadline, ours = processes_[id].wait->deadline;
      if (theirs < ours || (theirs == ours && other < id)) return false;
    }
    return true;
  }

  Explorer& explorer_;
  ManualClock& clock_;
  const std::optional<Death> death_;
  const bool patient_;
  // Only the running process uses this member, and the explorer runs one process at a time.
  std::vector<Process> processes_;
  StoreState state_{StoreState::Limits{}};
  bool death_came_ = false;
};

}  // namespace rondo
