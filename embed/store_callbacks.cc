// A store whose functions the program supplies (rondo_store_callbacks). These functions handle one key at a time, and a
// blocking wait in one of them could not be cancelled. So this class asks for each key separately, and polls instead of
// waiting.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <mutex>
#include <thread>
#include <utility>

#include "embed/handles.h"

namespace rondo::embed {
namespace {

constexpr Duration kFirstPause = std::chrono::milliseconds(1);
constexpr Duration kLongestPause = std::chrono::milliseconds(50);

class CallbackStore final : public Store {
 public:
  explicit CallbackStore(const rondo_store_callbacks& functions)
      : name_(TextOf(functions.name)), functions_(functions) {
    functions_.name = name_.c_str();
  }
  ~CallbackStore() override {
    if (functions_.release != nullptr) functions_.release(functions_.user);
  }
  CallbackStore(const CallbackStore&) = delete;
  CallbackStore& operator=(const CallbackStore&) = delete;

  std::string Describe() const override { return name_.empty() ? "the program's own store" : name_; }

  Status SetMany(std::span<const KeyValue> entries, TimePoint) override {
    for (const KeyValue& entry : entries)
      RONDO_TRY(Call(functions_.set, entry.key.c_str(), entry.value.data(), entry.value.size()));
    return {};
  }

  Result<std::vector<std::optional<std::string>>> GetMany(std::span<const std::string> keys, TimePoint) override {
    std::vector<std::optional<std::string>> values;
    for (const std::string& key : keys) {
      RONDO_ASSIGN(std::optional<std::string> value, GetOne(key));
      values.push_back(std::move(value));
    }
    return values;
  }

  Result<std::vector<std::string>> Wait(std::span<const std::string> keys, const WaitOptions& options) override {
    std::vector<std::string> values;
    Duration pause = kFirstPause;
    while (true) {
      while (values.size() < keys.size()) {
        RONDO_ASSIGN(std::optional<std::string> value, GetOne(keys[values.size()]));
        if (!value) break;
        values.push_back(*std::move(value));
      }
      if (values.size() == keys.size()) return values;
      if (!options.cancel_key.empty()) {
        RONDO_ASSIGN(const std::optional<std::string> why, GetOne(options.cancel_key));
        if (why) return Fail(ErrorCode::kAborted, "{}", Printable(*why, LineFeeds::kKeep));
      }
      const TimePoint now = clock_.Now();
      if (now >= options.deadline) break;
      std::this_thread::sleep_for(std::min(pause, options.deadline - now));
      pause = std::min(2 * pause, kLongestPause);
    }
    std::vector<std::string> missing;
    for (const std::string& key : keys.subspan(values.size())) {
      RONDO_ASSIGN(const std::optional<std::string> value, GetOne(key));
      if (!value) missing.push_back(Printable(key));
    }
    return Fail(ErrorCode::kStoreTimeout, "{} has no {} yet", Describe(), fmt::join(missing, ", "));
  }

  Result<std::int64_t> Add(std::string_view key, std::int64_t delta, TimePoint) override {
    std::int64_t sum = 0;
    RONDO_TRY(Call(functions_.add, std::string(key).c_str(), delta, &sum));
    return sum;
  }

  Result<CompareSetResult> CompareSet(std::string_view key, std::optional<std::string_view> expected,
                                      std::string_view desired, TimePoint) override {
    std::optional<std::string> current;
    // An empty expected value must not become NULL, because NULL means that the key must not exist.
    const char* const there = !expected ? nullptr : expected->empty() ? "" : expected->data();
    int swapped = 0;
    RONDO_TRY(Call(functions_.compare_set, std::string(key).c_str(), there, expected ? expected->size() : 0,
                   desired.data(), desired.size(), &swapped, Take, static_cast<void*>(&current)));
    return CompareSetResult{.swapped = swapped != 0,
                            .current = swapped != 0 ? std::string(desired) : current.value_or("")};
  }

  Result<std::size_t> DeleteMany(std::span<const std::string> keys, TimePoint) override {
    std::size_t removed = 0;
    if (functions_.remove == nullptr) return removed;
    for (const std::string& key : keys) {
      RONDO_ASSIGN(const std::optional<std::string> there, GetOne(key));
      if (!there) continue;
      RONDO_TRY(Call(functions_.remove, key.c_str()));
      ++removed;
    }
    return removed;
  }

 private:
  static void Take(void* to, const void* value, std::size_t bytes) {
    static_cast<std::optional<std::string>*>(to)->emplace(static_cast<const char*>(value), bytes);
  }

  Result<std::optional<std::string>> GetOne(const std::string& key) {
    std::optional<std::string> value;
    RONDO_TRY(Call(functions_.get, key.c_str(), Take, static_cast<void*>(&value)));
    return value;
  }

  template <typename Function, typename... Arguments>
  Status Call(Function function, Arguments... arguments) {
    std::array<char, 512> why{};
    const std::lock_guard lock(mutex_);
    if (function(functions_.user, arguments..., why.data(), why.size()) == 0) return {};
    why.back() = '\0';
    return Fail(ErrorCode::kStoreLost, "{}: {}", Describe(), Printable(why.data(), LineFeeds::kKeep));
  }

  const std::string name_;
  rondo_store_callbacks functions_;
  const SteadyClock clock_;
  std::mutex mutex_;  // only one call of a function runs at a time
};

}  // namespace

Result<AdoptedStore> AdoptStoreCallbacks(const rondo_store_callbacks& given) {
  const auto init = [](rondo_store_callbacks* made, std::size_t size) {
    InitSized(made, size, rondo_store_callbacks{});
  };
  RONDO_ASSIGN(const rondo_store_callbacks functions,
               Known<rondo_store_callbacks>(&given, init, "store_callbacks", "sizeof(rondo_store_callbacks)"));
  if (functions.set == nullptr || functions.get == nullptr || functions.add == nullptr ||
      functions.compare_set == nullptr)
    return Fail(ErrorCode::kInvalidArgument, "options.store: set, get, add and compare_set must not be NULL");
  return AdoptedStore{.store = std::make_shared<CallbackStore>(functions), .is_kept = functions.release != nullptr};
}

}  // namespace rondo::embed
