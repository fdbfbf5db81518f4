#include <string>
#include <utility>

#include "base/version.h"
#include "embed/handles.h"

namespace rondo::embed {
namespace {

// An error that owns the texts to which its pointers refer.
struct OwnedError : rondo_error {
  std::string text_, message_, host_, address_, network_, collective_, first_cause_;

  explicit OwnedError(const Error& found) : rondo_error{} {
    const ErrorDetails& details = found.details();
    code = static_cast<rondo_code>(details.code);
    rank = details.rank;
    culprit = details.culprit;
    step = details.step ? static_cast<std::int64_t>(*details.step) : -1;
    sequence = details.sequence.value_or(0);
    bytes_done = details.bytes_done;
    bytes_due = details.bytes_due;
    text = (text_ = found.ToString()).c_str();
    message = (message_ = details.message).c_str();
    host = (host_ = details.host).c_str();
    address = (address_ = details.address).c_str();
    interface_ = (network_ = details.interface).c_str();
    collective = (collective_ = details.collective).c_str();
    first_cause = (first_cause_ = details.first_cause).c_str();
  }
};

// The error that is returned when memory for an error cannot be allocated. It is never changed and never freed.
rondo_error kMemoryRanOut{.code = RONDO_OUT_OF_MEMORY,
                          .rank = -1,
                          .culprit = -1,
                          .step = -1,
                          .sequence = 0,
                          .bytes_done = 0,
                          .bytes_due = 0,
                          .text = "out_of_memory: memory ran out",
                          .message = "memory ran out",
                          .host = "",
                          .address = "",
                          .interface_ = "",
                          .collective = "",
                          .first_cause = ""};

}  // namespace

rondo_code HandOverOutOfMemory(rondo_error** error) noexcept {
  if (error != nullptr) *error = &kMemoryRanOut;
  return RONDO_OUT_OF_MEMORY;
}

rondo_code HandOver(const Error& found, rondo_error** error) noexcept {
  if (error != nullptr) {
    try {
      *error = new OwnedError(found);
    } catch (const std::bad_alloc&) {
      *error = &kMemoryRanOut;
    }
  }
  return static_cast<rondo_code>(found.code());
}

}  // namespace rondo::embed

const char* rondo_version(void) { return rondo::kRondoVersion.data(); }

const char* rondo_code_name(rondo_code code) {
  if (code == RONDO_OK) return "ok";
  if (code < RONDO_OK || code > RONDO_DEVICE) return "unknown";
  // The name is a string literal, so it ends with a zero byte.
  return rondo::Name(static_cast<rondo::ErrorCode>(code)).data();
}

void rondo_error_free(rondo_error* error) {
  if (error != nullptr && error != &rondo::embed::kMemoryRanOut) delete static_cast<rondo::embed::OwnedError*>(error);
}
