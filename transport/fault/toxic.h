// A toxic is a fault that a proxy applies to bytes that it forwards. A scope selects these bytes. The toxics are those
// of toxiproxy, and some more.
//
// A connection is two streams, one per direction. The bytes of each stream are counted from 0. A toxic affects the
// streams that its scope names, from byte `from_byte` up to but not including byte `to_byte`. All other bytes pass
// unchanged. A toxic for a single byte (reset_peer, limit_data, corrupt) uses only `from_byte`.
//
// Thread rule: plain values; functions are pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/clock.h"
#include "base/result.h"
#include "transport/fault/fire_count.h"

namespace rondo::fault {

enum class Way : std::uint8_t { kBoth, kToServer, kToClient };

struct Scope {
  std::string listener = {};  // ProxyRoute::name; "": every listener
  // The name that the recogniser gives to the stream: "lane(0->1)", "control(1->0)" (tcp_streams.h). With a name, bytes
  // are counted from the end of the handshake. "": every stream, with bytes counted from the start of the connection.
  std::string stream = {};
  Way way = Way::kBoth;
  // The number of the connection; 0: all. Connections of listeners with the same name are numbered together, from 1.
  std::uint64_t connection = 0;
  std::uint64_t from_byte = 0;
  std::uint64_t to_byte = std::numeric_limits<std::uint64_t>::max();
};

// Delays bytes and the end of the stream by `delay` plus a random part of `jitter`. Their order stays the same. The
// proxy's buffer holds the delayed bytes, so the rate is at most buffer_bytes per `delay`. Fires for each delayed
// piece.
struct Latency {
  Duration delay{};
  Duration jitter{};
};

// Limits the rate of each stream separately. Fires for each piece sent at that rate.
struct Bandwidth {
  std::uint64_t bytes_per_second = 0;
};

// Delays the end of the stream (FIN). Fires when it delays an end.
struct SlowClose {
  Duration delay{};
};

// A black hole: neither bytes nor an end pass, and neither side gets an error. Bytes stay in the proxy's buffer. When
// the buffer is full, further bytes stay at their sender. When the toxic is removed, all of them are sent. Fires for
// each stream whose bytes it holds back.
struct Timeout {
  // The stream ends (FIN) after this time, and held bytes are lost; nullopt: never.
  std::optional<Duration> close_after = {};
};

// Resets both ends (RST) when `from_byte` bytes of the stream have been forwarded. A reset destroys bytes that a
// receiver has not read yet. Fires once per connection.
struct ResetPeer {};

// Sends the bytes in slices. Each slice has its own system call and, on most paths, its own packet. Fires for each cut.
struct Slicer {
  std::size_t slice_bytes = 1;
  Duration pause{};  // between slices
};

// Ends the stream (FIN) after `from_byte` bytes; later bytes from its sender are dropped. The other direction
// continues. Fires once per stream.
struct LimitData {};

// Flips one bit of byte `from_byte` of the stream. Fires once per stream, when that byte arrives.
struct Corrupt {
  std::optional<int> bit = {};  // 0..7; nullopt: a random bit that depends on the proxy's seed
};

using Toxic = std::variant<Latency, Bandwidth, SlowClose, Timeout, ResetPeer, Slicer, LimitData, Corrupt>;

// Returns a text such as "slicer slice_bytes=1 on lane(0->1) of rank 1, connection 2, to the client, bytes 10..20".
std::string ToString(const Scope& scope, const Toxic& toxic);
// kInvalidArgument: the message names the invalid value.
Status Check(const Scope& scope, const Toxic& toxic);

// A toxic that was added. Any thread may read its counter, even after the proxy has ended.
struct Toxicity {
  Toxicity(Scope where, Toxic what, std::uint64_t order) : scope(std::move(where)), toxic(what), number(order) {}
  const Scope scope;
  const Toxic toxic;
  // The number of the toxic, in the order of adding, from 1; the toxic's random values depend on it.
  const std::uint64_t number;
  FireCount fired;
};
using ToxicHandle = std::shared_ptr<const Toxicity>;

}  // namespace rondo::fault
