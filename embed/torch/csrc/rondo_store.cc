#include "rondo_store.h"

#include <algorithm>

#include "work.h"

namespace rondo_torch {
namespace {

using Clock = std::chrono::steady_clock;

// torch's word for "for ever" is 0.
uint64_t Limit(std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds kForEver = std::chrono::hours(24 * 365);
  return static_cast<uint64_t>((timeout.count() <= 0 ? kForEver : timeout).count());
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

void RondoStore::set(const std::string& key, const Value& value) {
  Must([&](rondo_error** error) {
    return rondo_store_set(store_.get(), key.c_str(), value.data(), value.size(), Limit(timeout_), error);
  });
}

RondoStore::Value RondoStore::get(const std::string& key) {
  Bytes found;
  Must([&](rondo_error** error) {
    return rondo_store_wait(store_.get(), key.c_str(), found.get(), Limit(timeout_), error);
  });
  return found.value();
}

RondoStore::Value RondoStore::compareSet(const std::string& key, const Value& expected, const Value& desired) {
  Bytes now;
  int swapped = 0;
  Must([&](rondo_error** error) {
    return rondo_store_compare_set(store_.get(), key.c_str(), expected.empty() ? nullptr : expected.data(),
                                   expected.size(), desired.data(), desired.size(), &swapped, now.get(),
                                   Limit(timeout_), error);
  });
  const bool nothing_there = swapped == 0 && now.get()->size == 0 && !check({key});
  return nothing_there ? expected : now.value();
}

int64_t RondoStore::add(const std::string& key, int64_t value) {
  int64_t sum = 0;
  Must([&](rondo_error** error) {
    return rondo_store_add(store_.get(), key.c_str(), value, &sum, Limit(timeout_), error);
  });
  return sum;
}

bool RondoStore::deleteKey(const std::string& key) {
  int removed = 0;
  Must([&](rondo_error** error) {
    return rondo_store_remove(store_.get(), key.c_str(), &removed, Limit(timeout_), error);
  });
  return removed != 0;
}

bool RondoStore::check(const std::vector<std::string>& keys) {
  return std::all_of(keys.begin(), keys.end(), [&](const std::string& key) {
    Bytes value;
    int found = 0;
    Must([&](rondo_error** error) {
      return rondo_store_get(store_.get(), key.c_str(), value.get(), &found, Limit(timeout_), error);
    });
    return found != 0;
  });
}

int64_t RondoStore::getNumKeys() { TORCH_CHECK(false, "rondo: a store of Rondo's does not count its keys"); }

void RondoStore::wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) {
  const auto until = Clock::now() + std::chrono::milliseconds(Limit(timeout));
  for (const std::string& key : keys) {
    Bytes value;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    Must([&](rondo_error** error) {
      return rondo_store_wait(store_.get(), key.c_str(), value.get(), static_cast<uint64_t>(std::max<int64_t>(left, 1)),
                              error);
    });
  }
}

#if TORCH_VERSION_MAJOR >= 2
c10::intrusive_ptr<c10d::Store> RondoStore::clone() { return c10::make_intrusive<RondoStore>(*this); }
#endif

Met Meet(const std::string& url, std::chrono::milliseconds timeout, const Settings& settings) {
  rondo_connect_options options;
  rondo_connect_options_init(&options);
  options.rendezvous = url.c_str();
  options.timeout_ms = Limit(timeout);
  if (!settings.interface.empty()) options.interface_ = settings.interface.c_str();
  if (!settings.addresses.empty()) options.addresses = settings.addresses.c_str();
  rondo_store* store = nullptr;
  Met met{};
  Must([&](rondo_error** error) { return rondo_meet(&options, &store, &met.rank, &met.world_size, error); });
  met.store = c10::make_intrusive<RondoStore>(store);
  met.store->setTimeout(timeout);
  return met;
}

}  // namespace rondo_torch
