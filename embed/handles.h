// The types behind the handles of rondo.h, and helpers that its functions share: error conversion and argument checks.
#pragma once

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/dtype.h"
#include "base/log.h"
#include "base/reduce_op.h"
#include "base/result.h"
#include "collectives/communicator.h"
#include "collectives/fusion_buffer.h"
#include "embed/rondo.h"
#include "rendezvous/store.h"

namespace rondo::embed {

// State that must outlive a communicator. Its works, and the communicators that were split from it or rebuilt from it,
// also use this state.
struct Kept {
  std::unique_ptr<Logger> logger;
};

// Stores the error, with copies of its texts, in *error if `error` is not null. Returns its code.
rondo_code HandOver(const Error& found, rondo_error** error) noexcept;
inline rondo_code HandOver(const Status& status, rondo_error** error) noexcept {
  return status ? RONDO_OK : HandOver(status.error(), error);
}
// Stores the error kOutOfMemory, which needs no memory of its own.
rondo_code HandOverOutOfMemory(rondo_error** error) noexcept;

// Runs `body`, which returns a Status, as the body of a function of rondo.h. Exceptions become errors, so none leaves
// the function.
template <typename Body>
rondo_code Answer(rondo_error** error, Body&& body) noexcept {
  if (error != nullptr) *error = nullptr;
  try {
    return HandOver(body(), error);
  } catch (const std::bad_alloc&) {
    return HandOverOutOfMemory(error);
  } catch (const std::exception& thrown) {
    return HandOver(Error(ErrorCode::kInternal, thrown.what()), error);
  }
}

inline Status NotNull(const void* argument, const char* name) {
  if (argument != nullptr) return {};
  return Fail(ErrorCode::kInvalidArgument, "{} is NULL", name);
}

inline std::string TextOf(const char* text) { return text == nullptr ? "" : text; }

Result<DataType> DataTypeOf(int dtype);
Result<ReduceOp> ReduceOpOf(rondo_op op);
Result<OperationOptions> OptionsOf(const rondo_options* options);
Result<MessageOptions> MessageOptionsOf(const rondo_options* options);
Result<Duration> MillisecondsOf(const char* name, std::uint64_t ms);

// Converts a struct of rondo.h to this library's version. `given` comes from a caller compiled against any version of
// the header; null gives the defaults. `init` is the struct's rondo_..._init_sized. `made_by` names the function that
// the caller should have used, for errors.
template <typename Struct>
Result<Struct> Known(const Struct* given, void (*init)(Struct*, std::size_t), const char* name, const char* made_by) {
  Struct known;
  init(&known, sizeof known);
  if (given == nullptr) return known;
  if (given->size < sizeof given->size || given->size > 65536)
    return Fail(ErrorCode::kInvalidArgument,
                "{}: its field size is {}, which is not a valid size; initialize the struct by {}", name, given->size,
                made_by);
  const auto* const bytes = reinterpret_cast<const char*>(given);
  for (std::size_t at = sizeof known; at < given->size; ++at)
    if (bytes[at] != 0)
      return Fail(ErrorCode::kUnsupported,
                  "{}: a field is set that Rondo {} does not support; use a newer version of the library", name,
                  rondo_version());
  std::memcpy(&known, given, std::min(given->size, sizeof known));
  return known;
}

// Fills in the defaults of the fields that both the caller's version and this library's version of a struct have.
template <typename Struct>
void InitSized(Struct* given, std::size_t size, Struct defaults) {
  if (given == nullptr || size < sizeof given->size) return;
  defaults.size = size;
  std::memset(static_cast<void*>(given), 0, size);
  std::memcpy(static_cast<void*>(given), &defaults, std::min(size, sizeof defaults));
}

// Gives the work to the caller, or returns the error if the call itself was wrong.
Status GiveWork(const rondo_comm& comm, Work started, rondo_work** work);

// Copies the text into new bytes. The caller frees them with rondo_bytes_free.
Status GiveBytes(std::string_view text, rondo_bytes* bytes);

struct AdoptedStore {
  std::shared_ptr<Store> store;
  bool is_kept = false;  // true: the library may call the program's functions until it calls `release`
};
Result<AdoptedStore> AdoptStoreCallbacks(const rondo_store_callbacks& functions);

}  // namespace rondo::embed

struct rondo_comm {
  std::shared_ptr<rondo::embed::Kept> kept;
  std::unique_ptr<rondo::Communicator> communicator;
};

struct rondo_work {
  std::shared_ptr<rondo::embed::Kept> kept;
  rondo::Work work;
};

struct rondo_store {
  std::shared_ptr<rondo::embed::Kept> kept;  // null: the store logs nothing
  std::shared_ptr<rondo::Store> store;       // also owns the store's server if it runs in this process
};

struct rondo_fusion {
  std::shared_ptr<rondo::embed::Kept> kept;
  std::unique_ptr<rondo::FusionBuffer> buffer;
};

struct rondo_memory {
  std::unique_ptr<rondo::Memory> memory;
  std::unique_ptr<rondo::Registration> registration;
};
