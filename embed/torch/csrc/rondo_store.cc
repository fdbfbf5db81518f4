#include "rondo_store.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "interrupt.h"
#include "times.h"
#include "work.h"

namespace rondo_torch {
namespace {

using Clock = std::chrono::steady_clock;

// The generation for the rendezvous of rondo:// URLs. It must differ from other generations that this process uses in
// the same store. For example, rondo.init() of the Python package begins at 0.
constexpr uint64_t kGeneration = uint64_t{1} << 32;

// In torch a timeout of 0 means no limit. Negative times are overflows of torch's own arithmetic, so they also mean no
// limit.
uint64_t Limit(std::chrono::milliseconds timeout) {
  return static_cast<uint64_t>((timeout.count() <= 0 ? kLongest : std::min(timeout, kLongest)).count());
}

class Bytes {
 public:
  Bytes() = default;
  ~Bytes() { rondo_bytes_free(&bytes_); }
  Bytes(const Bytes&) = delete;
  rondo_bytes* get() { return &bytes_; }
  RondoStore::Value value() const {
    const auto* const first = static_cast<const uint8_t*>(bytes_.data);
    return RondoStore::Value(first, first + bytes_.size);
  }

 private:
  rondo_bytes bytes_{};
};

}  // namespace

template <typename Call>
void RondoStore::Ask(Call call) const {
  RunInterruptibly([store = store_, call = std::move(call)](const GivenUp&) {
    Must([&](rondo_error** error) { return call(store.get(), error); });
  });
}

void RondoStore::set(const std::string& key, const Value& value) {
  Ask([=, limit = Limit(timeout_)](rondo_store* store, rondo_error** error) {
    return rondo_store_set(store, key.c_str(), value.data(), value.size(), limit, error);
  });
}

RondoStore::Value RondoStore::get(const std::string& key) {
  const auto found = std::make_shared<Bytes>();
  Ask([=, limit = Limit(timeout_)](rondo_store* store, rondo_error** error) {
    return rondo_store_wait(store, key.c_str(), found->get(), limit, error);
  });
  return found->value();
}

RondoStore::Value RondoStore::compareSet(const std::string& key, const Value& expected, const Value& desired) {
  const auto now = std::make_shared<Bytes>();
  const auto swapped = std::make_shared<int>(0);
  Ask([=, limit = Limit(timeout_)](rondo_store* store, rondo_error** error) {
    return rondo_store_compare_set(store, key.c_str(), expected.empty() ? nullptr : expected.data(), expected.size(),
                                   desired.data(), desired.size(), swapped.get(), now->get(), limit, error);
  });
  const bool nothing_there = *swapped == 0 && now->get()->size == 0 && !check({key});
  return nothing_there ? expected : now->value();
}

int64_t RondoStore::add(const std::string& key, int64_t value) {
  const auto sum = std::make_shared<int64_t>(0);
  Ask([=, limit = Limit(timeout_)](rondo_store* store, rondo_error** error) {
    return rondo_store_add(store, key.c_str(), value, sum.get(), limit, error);
  });
  return *sum;
}

bool RondoStore::deleteKey(const std::string& key) {
  const auto removed = std::make_shared<int>(0);
  Ask([=, limit = Limit(timeout_)](rondo_store* store, rondo_error** error) {
    return rondo_store_remove(store, key.c_str(), removed.get(), limit, error);
  });
  return *removed != 0;
}

bool RondoStore::check(const std::vector<std::string>& keys) {
  return std::all_of(keys.begin(), keys.end(), [&](const std::string& key) {
    const auto value = std::make_shared<Bytes>();
    const auto found = std::make_shared<int>(0);
    Ask([=, limit = Limit(timeout_)](rondo_store* store, rondo_error** error) {
      return rondo_store_get(store, key.c_str(), value->get(), found.get(), limit, error);
    });
    return *found != 0;
  });
}

int64_t RondoStore::getNumKeys() { TORCH_CHECK(false, "rondo: RondoStore does not support num_keys()"); }

void RondoStore::wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) {
  const auto until = Clock::now() + std::chrono::milliseconds(Limit(timeout));
  for (const std::string& key : keys) {
    const auto value = std::make_shared<Bytes>();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    Ask([=](rondo_store* store, rondo_error** error) {
      return rondo_store_wait(store, key.c_str(), value->get(), static_cast<uint64_t>(std::max<int64_t>(left, 1)),
                              error);
    });
  }
}

#if TORCH_VERSION_MAJOR >= 2
c10::intrusive_ptr<c10d::Store> RondoStore::clone() { return c10::make_intrusive<RondoStore>(*this); }
#endif

RendezvousResult Rendezvous(const std::string& url, std::chrono::milliseconds timeout, const Settings& settings) {
  timeout = LimitOf(timeout, "timeout");
  const auto result = std::make_shared<RendezvousResult>();
  RunInterruptibly([=](const GivenUp&) {
    rondo_connect_options options;
    rondo_connect_options_init(&options);
    options.rendezvous = url.c_str();
    options.timeout_ms = Limit(timeout);
    options.generation = kGeneration;
    if (!settings.interface.empty()) options.interface_ = settings.interface.c_str();
    if (!settings.addresses.empty()) options.addresses = settings.addresses.c_str();
    rondo_store* store = nullptr;
    Must([&](rondo_error** error) {
      return rondo_rendezvous(&options, &store, &result->rank, &result->world_size, error);
    });
    result->store = c10::make_intrusive<RondoStore>(store);
    result->store->setTimeout(timeout);
  });
  return *result;
}

}  // namespace rondo_torch
