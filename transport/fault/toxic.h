// What a proxy can do to the bytes that it forwards, and to which bytes: toxiproxy's toxics, and some more.
//
// A connection is two streams, one per direction, each counted in bytes from 0. A toxic concerns the streams that its
// scope names, from byte `from_byte` on and before byte `to_byte`; all other bytes pass unchanged. A toxic for a single
// byte (reset_peer, limit_data, corrupt) uses `from_byte`.
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
  // The recogniser's name of the stream: "lane(0->1)", "control(1->0)" (tcp_streams.h). Bytes are then counted from the
  // end of the handshake. "": every stream, counted from the first byte of the connection.
  std::string stream = {};
  Way way = Way::kBoth;
  std::uint64_t connection = 0;  // the k-th that a listener of this name accepted, from 1; 0: every connection
  std::uint64_t from_byte = 0;
  std::uint64_t to_byte = std::numeric_limits<std::uint64_t>::max();
};

// Bytes and the end arrive later, in order: after `delay` and a random part of `jitter`. At most the bytes of the
// proxy's buffer are delayed at a time, so the rate is at most buffer_bytes per delay. Fires for each delayed piece.
struct Latency {
  Duration delay{};
  Duration jitter{};
};

// Limits the rate of each stream separately. Fires for each piece sent at that rate.
struct Bandwidth {
  std::uint64_t bytes_per_second = 0;
};

// Delays the end of the stream (FIN). Fires when it does.
struct SlowClose {
  Duration delay{};
};

// A black hole: neither bytes nor an end pass, and neither side gets an error. Bytes stay in the proxy's buffer and,
// once it is full, at their sender. When the toxic is removed, all of them are sent. Fires for each stream with bytes
// held back.
struct Timeout {
  std::optional<Duration> close_after = {};  // then the stream ends (FIN), and held bytes are lost; nullopt: never
};

// Resets both ends (RST) when `from_byte` bytes of the stream have been forwarded. A reset destroys bytes that an end
// has not read yet. Fires once per connection.
struct ResetPeer {};

// Sends the bytes in slices, each in its own system call and, on most paths, its own packet. Fires for each cut.
struct Slicer {
  std::size_t slice_bytes = 1;
  Duration pause{};  // between slices
};

// Ends the stream (FIN) after `from_byte` bytes; later bytes of its sender are dropped. The other direction continues.
// Fires once per stream.
struct LimitData {};

// Flips one bit of byte `from_byte`. Fires once per stream, if that byte arrives.
struct Corrupt {
  std::optional<int> bit = {};  // 0..7; nullopt: a random bit that depends on the proxy's seed
};

using Toxic = std::variant<Latency, Bandwidth, SlowClose, Timeout, ResetPeer, Slicer, LimitData, Corrupt>;

// "slicer slice_bytes=1 on lane(0->1) of rank 1, connection 2, to the client, bytes 10..20"
std::string ToString(const Scope& scope, const Toxic& toxic);
// kInvalidArgument: the message names the invalid value.
Status Check(const Scope& scope, const Toxic& toxic);

// A toxic that was added. Any thread may read its counter, even after the proxy has ended.
struct Toxicity {
  Toxicity(Scope where, Toxic what, std::uint64_t order) : scope(std::move(where)), toxic(what), number(order) {}
  const Scope scope;
  const Toxic toxic;
  const std::uint64_t number;  // counts the toxics as they are added, from 1; the toxic's random values depend on it
  FireCount fired;
};
using ToxicHandle = std::shared_ptr<const Toxicity>;

}  // namespace rondo::fault
