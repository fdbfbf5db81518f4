#include "collectives/connect_goodbyes.h"

#include <fmt/core.h>

#include <future>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "rendezvous/store.h"

namespace rondo {
namespace {

using Found = Result<std::optional<std::string>>;

// Stores `goodbye`. If `goodbye` is nullopt, reads the stored goodbye instead.
Found Ask(const GoodbyeStore& in, const std::string& key, const std::optional<std::string>& goodbye) {
  const TimePoint deadline = in.clock->Now() + kKeptGoodbyeLimit;
  RONDO_ASSIGN(const OpenedStore opened, in.open(deadline));
  if (!goodbye) return opened.store().Get(key, deadline);
  RONDO_TRY(opened.store().Set(key, *goodbye, deadline));
  return std::nullopt;
}

class StoredGoodbyes final : public KeptGoodbyes {
 public:
  StoredGoodbyes(GoodbyeStore store, std::string prefix)
      : store_(std::make_shared<const GoodbyeStore>(std::move(store))), prefix_(std::move(prefix)) {}

  std::string Describe() const override { return store_->description; }
  Status Keep(std::uint64_t communicator, Rank rank, const std::string& goodbye) override {
    RONDO_ASSIGN([[maybe_unused]] const auto nothing, AskInTime(KeyOf(communicator, rank), goodbye));
    return {};
  }
  Found Find(std::uint64_t communicator, Rank rank) override {
    return AskInTime(KeyOf(communicator, rank), std::nullopt);
  }

 private:
  std::string KeyOf(std::uint64_t communicator, Rank rank) const {
    return fmt::format("{}{}/{}", prefix_, communicator, rank);
  }

  Found AskInTime(const std::string& key, const std::optional<std::string>& goodbye) {
    if (store_->keeps_deadlines) return Ask(*store_, key, goodbye);
    // The store is released before the answer is set, so that this thread never holds the last reference to it.
    auto task = std::make_shared<std::packaged_task<Found()>>([store = store_, key, goodbye]() mutable {
      Found found = Ask(*store, key, goodbye);
      store = nullptr;
      return found;
    });
    std::future<Found> answer = task->get_future();
    try {
      std::thread([task] { (*task)(); }).detach();
    } catch (const std::system_error& error) {
      return Fail(ErrorCode::kResource, "cannot start a thread that asks {} for a goodbye: {}", store_->description,
                  error.what());
    }
    if (answer.wait_for(kKeptGoodbyeLimit) == std::future_status::ready) return answer.get();
    return Fail(ErrorCode::kStoreTimeout, "{} did not answer in time", store_->description);
  }

  const std::shared_ptr<const GoodbyeStore> store_;
  const std::string prefix_;
};

}  // namespace

// The keys contain the instance of rank 0, which is new in every process and generation. So goodbyes of other
// rendezvous are never read.
std::shared_ptr<KeptGoodbyes> KeepGoodbyesIn(GoodbyeStore store, const Membership& membership) {
  std::string prefix = fmt::format("rondo/{}/{}/left/{}/", store.job, membership.generation,
                                   membership.members.empty() ? "" : membership.members.front().instance);
  return std::make_shared<StoredGoodbyes>(std::move(store), std::move(prefix));
}

}  // namespace rondo
