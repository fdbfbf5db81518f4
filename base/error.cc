#include "base/error.h"

#include <fmt/core.h>

#include <array>
#include <utility>

#include "base/out_of_memory.h"
#include "base/printable.h"
#include "base/rank_frame.h"

namespace rondo {
namespace {

// Makes the texts printable. Copies a text only if that is necessary, because nearly all are printable.
ErrorDetails Shown(ErrorDetails details) {
  for (std::string* text : {&details.message, &details.host, &details.address, &details.interface, &details.collective,
                            &details.first_cause}) {
    if (!IsPrintable(*text, LineFeeds::kKeep)) *text = Printable(*text, LineFeeds::kKeep);
  }
  return details;
}

constexpr std::array kNames{
    std::string_view("ok"),  // number 0 is not an error
    std::string_view("invalid_argument"),
    std::string_view("unsupported"),
    std::string_view("not_ready"),
    std::string_view("timeout"),
    std::string_view("peer_lost"),
    std::string_view("connection_reset"),
    std::string_view("unreachable"),
    std::string_view("protocol"),
    std::string_view("mismatch"),
    std::string_view("version_mismatch"),
    std::string_view("duplicate_rank"),
    std::string_view("world_size_mismatch"),
    std::string_view("rendezvous_timeout"),
    std::string_view("stale"),
    std::string_view("store_lost"),
    std::string_view("store_timeout"),
    std::string_view("store_io"),
    std::string_view("address_in_use"),
    std::string_view("resource"),
    std::string_view("out_of_memory"),
    std::string_view("corrupt"),
    std::string_view("auth"),
    std::string_view("aborted"),
    std::string_view("peer_aborted"),
    std::string_view("closed"),
    std::string_view("internal"),
    std::string_view("rebuild_failed"),
    std::string_view("device"),
};
static_assert(kNames.size() == static_cast<std::size_t>(ErrorCode::kDevice) + 1);

// Short enough for a string's internal buffer, so that copying it needs no memory.
constexpr char kMemoryRanOut[] = "memory ran out";
static_assert(sizeof kMemoryRanOut <= 16);

}  // namespace

std::string_view Name(ErrorCode code) { return kNames[static_cast<std::size_t>(code)]; }

ErrorCode ErrorCodeFromNumber(std::uint8_t number) {
  return number >= 1 && number < kNames.size() ? static_cast<ErrorCode>(number) : ErrorCode::kInternal;
}

Error::Error(ErrorCode code, std::string message) {
  ErrorDetails details;
  details.code = code;
  details.message = std::move(message);
  details_ = std::make_shared<const ErrorDetails>(Shown(std::move(details)));
}

Error::Error(ErrorDetails details) : details_(std::make_shared<const ErrorDetails>(Shown(std::move(details)))) {}

Error Error::MemoryRanOut() noexcept {
  static const ErrorDetails details{.code = ErrorCode::kOutOfMemory, .message = kMemoryRanOut};
  return Error(std::shared_ptr<const ErrorDetails>(std::shared_ptr<const ErrorDetails>(), &details));
}

Error OutOfMemoryWhile(std::string_view doing) noexcept {
  try {
    return Error(ErrorCode::kOutOfMemory, fmt::format("memory ran out while {}", doing));
  } catch (const std::bad_alloc&) {
    return Error::MemoryRanOut();
  }
}

std::string Error::ToString() const {
  const ErrorDetails& d = *details_;
  std::string text = fmt::format("{}: {}", Name(d.code), d.message);
  if (d.culprit != kNoRank) {
    std::string place;
    if (!d.host.empty()) place += "host " + d.host;
    if (!d.address.empty()) place += (place.empty() ? "" : ", ") + d.address;
    if (!d.interface.empty()) place += (place.empty() ? "via " : " via ") + d.interface;
    text += "; caused by " + NameOfRank(d.frame.get(), d.culprit);
    if (!place.empty()) text += fmt::format(" ({})", place);
  } else if (!d.address.empty()) {
    text += fmt::format("; address {}", d.address);
  }
  if (d.rank != kNoRank) text += "; reported by " + NameOfRank(d.frame.get(), d.rank);
  if (!d.collective.empty()) text += fmt::format("; in {}", d.collective);
  if (d.sequence) text += fmt::format(" #{}", *d.sequence);
  if (d.step) text += fmt::format(", step {}, {} of {} bytes", *d.step, d.bytes_done, d.bytes_due);
  if (!d.first_cause.empty()) text += fmt::format("; first cause: {}", d.first_cause);
  return text;
}

}  // namespace rondo
