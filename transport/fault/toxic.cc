#include "transport/fault/toxic.h"

#include <fmt/core.h>

#include <chrono>

namespace rondo::fault {
namespace {

double Ms(Duration duration) { return std::chrono::duration<double, std::milli>(duration).count(); }

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

std::string InWords(const Toxic& toxic) {
  return std::visit(
      Overloaded{
          [](const Latency& t) { return fmt::format("latency delay_ms={} jitter_ms={}", Ms(t.delay), Ms(t.jitter)); },
          [](const Bandwidth& t) { return fmt::format("bandwidth bytes_per_second={}", t.bytes_per_second); },
          [](const SlowClose& t) { return fmt::format("slow_close delay_ms={}", Ms(t.delay)); },
          [](const Timeout& t) {
            return t.close_after ? fmt::format("timeout close_after_ms={}", Ms(*t.close_after)) : "timeout";
          },
          [](const ResetPeer&) { return std::string("reset_peer"); },
          [](const Slicer& t) {
            return fmt::format("slicer slice_bytes={}{}", t.slice_bytes,
                               t.pause > Duration::zero() ? fmt::format(" pause_ms={}", Ms(t.pause)) : "");
          },
          [](const LimitData&) { return std::string("limit_data"); },
          [](const Corrupt& t) { return t.bit ? fmt::format("corrupt bit={}", *t.bit) : "corrupt"; },
      },
      toxic);
}

Status CheckToxic(const Toxic& toxic) {
  const auto not_negative = [](const char* name, Duration value) -> Status {
    if (value >= Duration::zero()) return {};
    return Fail(ErrorCode::kInvalidArgument, "{} is negative ({} ms)", name, Ms(value));
  };
  return std::visit(
      Overloaded{
          [&](const Latency& t) -> Status {
            RONDO_TRY(not_negative("the latency's delay", t.delay));
            return not_negative("the latency's jitter", t.jitter);
          },
          [](const Bandwidth& t) -> Status {
            if (t.bytes_per_second > 0) return {};
            return Fail(ErrorCode::kInvalidArgument,
                        "bytes_per_second of the bandwidth toxic is 0; use the timeout toxic instead");
          },
          [&](const SlowClose& t) { return not_negative("the delay of slow_close", t.delay); },
          [&](const Timeout& t) {
            return not_negative("the timeout's close_after", t.close_after.value_or(Duration{}));
          },
          [](const ResetPeer&) { return Status{}; },
          [&](const Slicer& t) -> Status {
            if (t.slice_bytes == 0)
              return Fail(ErrorCode::kInvalidArgument, "slice_bytes of the slicer toxic is 0; expected at least 1");
            return not_negative("the slicer's pause", t.pause);
          },
          [](const LimitData&) { return Status{}; },
          [](const Corrupt& t) -> Status {
            if (!t.bit || (*t.bit >= 0 && *t.bit < 8)) return {};
            return Fail(ErrorCode::kInvalidArgument, "bit {} of the corrupt toxic is outside 0..7", *t.bit);
          },
      },
      toxic);
}

}  // namespace

std::string ToString(const Scope& scope, const Toxic& toxic) {
  std::string text = InWords(toxic);
  text += " on " + (scope.stream.empty() ? std::string("every stream") : scope.stream);
  if (!scope.listener.empty()) text += " of " + scope.listener;
  if (scope.connection != 0) text += fmt::format(", connection {}", scope.connection);
  if (scope.way != Way::kBoth) text += scope.way == Way::kToServer ? ", to the server" : ", to the client";
  if (scope.to_byte != Scope{}.to_byte) return text + fmt::format(", bytes {}..{}", scope.from_byte, scope.to_byte);
  if (scope.from_byte != 0) text += fmt::format(", from byte {}", scope.from_byte);
  return text;
}

Status Check(const Scope& scope, const Toxic& toxic) {
  if (scope.from_byte >= scope.to_byte) {
    return Fail(ErrorCode::kInvalidArgument, "the toxic's range of bytes {}..{} is empty", scope.from_byte,
                scope.to_byte);
  }
  return CheckToxic(toxic);
}

}  // namespace rondo::fault
