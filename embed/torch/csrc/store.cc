#include "store.h"

#include <algorithm>
#include <cstdio>
#include <vector>

namespace rondo_torch {
namespace {

using Value = std::vector<uint8_t>;

Value ValueOf(const void* bytes, size_t size) {
  const auto* const first = static_cast<const uint8_t*>(bytes);
  return Value(first, first + size);
}

// Runs `body`, and writes the text of an exception into `why`. torch's stores throw, but no exception may pass through
// C.
template <typename Body>
int CatchInto(char* why, size_t why_bytes, Body&& body) noexcept {
  try {
    body();
    return 0;
  } catch (const std::exception& thrown) {
    std::snprintf(why, why_bytes, "%s", thrown.what());
  } catch (...) {
    std::snprintf(why, why_bytes, "%s", "the exception is not a std::exception");
  }
  return 1;
}

// If CheckedStore throws, Rondo treats that as an error of the store, and rondo_connect fails.
c10d::Store& Of(void* user) { return (*static_cast<const std::shared_ptr<TorchStore>*>(user))->CheckedStore(); }

int Set(void* user, const char* key, const void* value, size_t bytes, char* why, size_t why_bytes) {
  return CatchInto(why, why_bytes, [&] { Of(user).set(key, ValueOf(value, bytes)); });
}

int Get(void* user, const char* key, void (*take)(void*, const void*, size_t), void* to, char* why, size_t why_bytes) {
  return CatchInto(why, why_bytes, [&] {
    c10d::Store& store = Of(user);
    if (!store.check({key})) return;
    const Value value = store.get(key);
    take(to, value.data(), value.size());
  });
}

int Add(void* user, const char* key, int64_t delta, int64_t* sum, char* why, size_t why_bytes) {
  return CatchInto(why, why_bytes, [&] { *sum = Of(user).add(key, delta); });
}

// For torch an empty expectation means a key that does not exist. torch returns the value of the key after the call.
int CompareSet(void* user, const char* key, const void* expected, size_t expected_bytes, const void* desired,
               size_t desired_bytes, int* swapped, void (*take)(void*, const void*, size_t), void* to, char* why,
               size_t why_bytes) {
  return CatchInto(why, why_bytes, [&] {
    const Value wanted = ValueOf(desired, desired_bytes);
    const Value now =
        Of(user).compareSet(key, expected == nullptr ? Value() : ValueOf(expected, expected_bytes), wanted);
    *swapped = now == wanted ? 1 : 0;
    take(to, now.data(), now.size());
  });
}

int Remove(void* user, const char* key, char* why, size_t why_bytes) {
  return CatchInto(why, why_bytes, [&] { Of(user).deleteKey(key); });
}

}  // namespace

rondo_store_callbacks TorchStore::Functions(const std::shared_ptr<TorchStore>& store) {
  rondo_store_callbacks functions{};
  functions.size = sizeof functions;
  functions.user = new std::shared_ptr<TorchStore>(store);
  functions.release = [](void* user) { delete static_cast<std::shared_ptr<TorchStore>*>(user); };
  functions.name = "torch's store";
  functions.set = Set;
  functions.get = Get;
  functions.add = Add;
  functions.compare_set = CompareSet;
  functions.remove = Remove;
  return functions;
}

}  // namespace rondo_torch
