#include <cstdlib>
#include <new>

#include "collectives/connect.h"  // ProcessEnvironment
#include "embed/handles.h"
#include "rendezvous/find_identity.h"
#include "rendezvous/url/init_method.h"
#include "rendezvous/url/open_store.h"

namespace rondo::embed {
namespace {

Result<TimePoint> DeadlineIn(std::uint64_t timeout_ms) {
  RONDO_ASSIGN(const Duration timeout, MillisecondsOf("timeout_ms", timeout_ms));
  return Later(SteadyClock().Now(), timeout);
}

Result<std::unique_ptr<rondo_store>> Open(const rondo_store_options* options) {
  RONDO_ASSIGN(const rondo_store_options known,
               Known(options, rondo_store_options_init_sized, "store_options", "rondo_store_options_init"));
  RONDO_TRY(NotNull(known.url, "options.url"));
  RONDO_ASSIGN(const InitMethod method, ParseInitMethod(known.url));
  const bool serve = known.serve != 0;
  if (serve && method.kind != InitMethod::Kind::kTcp)
    return Fail(ErrorCode::kInvalidArgument,
                "options.serve: expected a tcp:// URL, because no process serves the store of {}", method.ToString());
  OpenStoreOptions opening;
  opening.job = known.job == nullptr ? "default" : known.job;
  RONDO_ASSIGN(opening.identity, FindIdentity(TextOf(known.token), std::nullopt, ProcessEnvironment));
  opening.rank = serve ? 0 : 1;
  opening.external_store = !serve;
  opening.who = "a program that uses the store alone";
  RONDO_ASSIGN(opening.deadline, DeadlineIn(known.timeout_ms));
  RONDO_ASSIGN(const OpenedStore opened, OpenStore(method, opening));
  const auto held = std::make_shared<OpenedStore>(opened);  // also holds the server
  auto made = std::make_unique<rondo_store>();
  made->store = std::shared_ptr<Store>(held, &held->store());
  return made;
}

}  // namespace

Status GiveBytes(std::string_view text, rondo_bytes* bytes) {
  if (bytes == nullptr) return {};
  *bytes = {};
  // Allocates one more byte, so that a caller that treats the value as text finds a terminating zero.
  void* const data = std::malloc(text.size() + 1);
  if (data == nullptr) throw std::bad_alloc();
  std::memcpy(data, text.data(), text.size());
  static_cast<char*>(data)[text.size()] = '\0';
  *bytes = {.data = data, .size = text.size()};
  return {};
}

}  // namespace rondo::embed

using namespace rondo;         // NOLINT(google-build-using-namespace): the C functions below are in no namespace
using namespace rondo::embed;  // NOLINT(google-build-using-namespace)

void rondo_bytes_free(rondo_bytes* bytes) {
  if (bytes == nullptr) return;
  std::free(bytes->data);
  *bytes = {};
}

rondo_code rondo_store_open(const rondo_store_options* options, rondo_store** store, rondo_error** error) {
  if (store != nullptr) *store = nullptr;
  return Answer(error, [&]() -> Status {
    RONDO_TRY(NotNull(options, "options"));
    RONDO_TRY(NotNull(store, "store"));
    RONDO_ASSIGN(auto opened, Open(options));
    *store = opened.release();
    return {};
  });
}

void rondo_store_free(rondo_store* store) { delete store; }

rondo_code rondo_store_set(rondo_store* store, const char* key, const void* value, size_t bytes, uint64_t timeout_ms,
                           rondo_error** error) {
  return Answer(error, [&]() -> Status {
    RONDO_TRY(NotNull(store, "store"));
    RONDO_TRY(NotNull(key, "key"));
    if (bytes > 0) RONDO_TRY(NotNull(value, "value"));
    RONDO_ASSIGN(const TimePoint deadline, DeadlineIn(timeout_ms));
    return store->store->Set(key, std::string_view(static_cast<const char*>(value), bytes), deadline);
  });
}

rondo_code rondo_store_get(rondo_store* store, const char* key, rondo_bytes* value, int* found, uint64_t timeout_ms,
                           rondo_error** error) {
  if (value != nullptr) *value = {};
  if (found != nullptr) *found = 0;
  return Answer(error, [&]() -> Status {
    RONDO_TRY(NotNull(store, "store"));
    RONDO_TRY(NotNull(key, "key"));
    RONDO_TRY(NotNull(found, "found"));
    RONDO_ASSIGN(const TimePoint deadline, DeadlineIn(timeout_ms));
    RONDO_ASSIGN(const std::optional<std::string> there, store->store->Get(key, deadline));
    if (!there) return {};
    RONDO_TRY(GiveBytes(*there, value));
    *found = 1;
    return {};
  });
}

rondo_code rondo_store_wait(rondo_store* store, const char* key, rondo_bytes* value, uint64_t timeout_ms,
                            rondo_error** error) {
  if (value != nullptr) *value = {};
  return Answer(error, [&]() -> Status {
    RONDO_TRY(NotNull(store, "store"));
    RONDO_TRY(NotNull(key, "key"));
    RONDO_ASSIGN(const TimePoint deadline, DeadlineIn(timeout_ms));
    RONDO_ASSIGN(const std::string there, store->store->WaitFor(key, deadline));
    return GiveBytes(there, value);
  });
}

rondo_code rondo_store_add(rondo_store* store, const char* key, int64_t delta, int64_t* sum, uint64_t timeout_ms,
                           rondo_error** error) {
  return Answer(error, [&]() -> Status {
    RONDO_TRY(NotNull(store, "store"));
    RONDO_TRY(NotNull(key, "key"));
    RONDO_ASSIGN(const TimePoint deadline, DeadlineIn(timeout_ms));
    RONDO_ASSIGN(const std::int64_t now, store->store->Add(key, delta, deadline));
    if (sum != nullptr) *sum = now;
    return {};
  });
}

rondo_code rondo_store_compare_set(rondo_store* store, const char* key, const void* expected, size_t expected_bytes,
                                   const void* desired, size_t desired_bytes, int* swapped, rondo_bytes* current,
                                   uint64_t timeout_ms, rondo_error** error) {
  if (swapped != nullptr) *swapped = 0;
  if (current != nullptr) *current = {};
  return Answer(error, [&]() -> Status {
    RONDO_TRY(NotNull(store, "store"));
    RONDO_TRY(NotNull(key, "key"));
    RONDO_TRY(NotNull(swapped, "swapped"));
    if (desired_bytes > 0) RONDO_TRY(NotNull(desired, "desired"));
    std::optional<std::string_view> there;
    if (expected != nullptr) there = std::string_view(static_cast<const char*>(expected), expected_bytes);
    RONDO_ASSIGN(const TimePoint deadline, DeadlineIn(timeout_ms));
    RONDO_ASSIGN(const CompareSetResult result,
                 store->store->CompareSet(key, there, {static_cast<const char*>(desired), desired_bytes}, deadline));
    RONDO_TRY(GiveBytes(result.current, current));
    *swapped = result.swapped ? 1 : 0;
    return {};
  });
}

rondo_code rondo_store_remove(rondo_store* store, const char* key, int* removed, uint64_t timeout_ms,
                              rondo_error** error) {
  if (removed != nullptr) *removed = 0;
  return Answer(error, [&]() -> Status {
    RONDO_TRY(NotNull(store, "store"));
    RONDO_TRY(NotNull(key, "key"));
    RONDO_ASSIGN(const TimePoint deadline, DeadlineIn(timeout_ms));
    const std::string keys[] = {key};
    RONDO_ASSIGN(const std::size_t count, store->store->DeleteMany(keys, deadline));
    if (removed != nullptr) *removed = static_cast<int>(count);
    return {};
  });
}
