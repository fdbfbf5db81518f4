// What the handles of rondo.h are, and what its functions share: errors that go over, arguments that are looked at.
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

// What outlives a communicator for those made of it (works, parts, next generations).
struct Kept {
  std::unique_ptr<Logger> logger;
};

// One that functions of rondo.h give out, text and all.
rondo_code HandOver(const Error& found, rondo_error** error) noexcept;
inline rondo_code HandOver(const Status& status, rondo_error** error) noexcept {
  return status ? RONDO_OK : HandOver(status.error(), error);
}
// The error that takes no memory.
rondo_code HandOverOutOfMemory(rondo_error** error) noexcept;

// Runs `body`, which gives a Status, as a function of rondo.h: no exception leaves it.
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

// A struct of rondo.h as this library knows it, from what a caller compiled against any version of the header gave.
// `init` is that struct's rondo_..._init_sized, `made_by` what a caller should have used. NULL: the defaults.
template <typename Struct>
Result<Struct> Known(const Struct* given, void (*init)(Struct*, std::size_t), const char* name, const char* made_by) {
  Struct known;
  init(&known, sizeof known);
  if (given == nullptr) return known;
  if (given->size < sizeof given->size || given->size > 65536)
    return Fail(ErrorCode::kInvalidArgument, "{}: its size is {}, which {} does not give", name, given->size, made_by);
  const auto* const bytes = reinterpret_cast<const char*>(given);
  for (std::size_t at = sizeof known; at < given->size; ++at)
    if (bytes[at] != 0)
      return Fail(ErrorCode::kUnsupported, "{}: says something that Rondo {} does not know yet", name, rondo_version());
  std::memcpy(&known, given, std::min(given->size, sizeof known));
  return known;
}

// Defaults into as much of a struct as the caller knows, and as this library knows.
template <typename Struct>
void InitSized(Struct* given, std::size_t size, Struct defaults) {
  if (given == nullptr || size < sizeof given->size) return;
  defaults.size = size;
  std::memset(static_cast<void*>(given), 0, size);
  std::memcpy(static_cast<void*>(given), &defaults, std::min(size, sizeof defaults));
}

// Hands over what was started, unless the call itself was wrong.
Status GiveWork(const rondo_comm& comm, Work started, rondo_work** work);

// Whoever gets bytes frees them by rondo_bytes_free.
Status GiveBytes(std::string_view text, rondo_bytes* bytes);

struct AdoptedStore {
  std::shared_ptr<Store> store;
  bool is_kept = false;  // its functions may be called until it is released
};
Result<AdoptedStore> AdoptForeignStore(const rondo_foreign_store& functions);

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
  std::shared_ptr<rondo::embed::Kept> kept;  // null: nothing is told of it
  std::shared_ptr<rondo::Store> store;       // with its server, where this process has it
};

struct rondo_fusion {
  std::shared_ptr<rondo::embed::Kept> kept;
  std::unique_ptr<rondo::FusionBuffer> buffer;
};

struct rondo_memory {
  std::unique_ptr<rondo::Memory> memory;
  std::unique_ptr<rondo::Registration> registration;
};
