// What a proxy can do to the bytes that pass through it, and to which of them: the verbs of toxiproxy, and some more.
//
// A connection is two streams, one per way, each counted in bytes from 0. A toxic works on the streams that its scope
// names, from byte `from_byte` on and before byte `to_byte`; everything else passes untouched. Where it stands for one
// place rather than a stretch (reset_peer, limit_data, corrupt) that place is `from_byte`.
//
// Values; functions are pure.
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
  std::string listener = {};  // ProxyRoute::name; "": every one
  // What the route's recogniser calls the stream: "lane(0->1)", "control(1->0)" (tcp_streams.h). Bytes are then counted
  // from where the handshake has ended. "": every stream, counted from the first byte of the connection.
  std::string stream = {};
  Way way = Way::kBoth;
  std::uint64_t connection = 0;  // the k-th that a listener of this name accepted, from 1; 0: every one
  std::uint64_t from_byte = 0;
  std::uint64_t to_byte = std::numeric_limits<std::uint64_t>::max();
};

// Bytes and the end arrive later, in order: after `delay` and a random part of `jitter`. No more than the proxy's
// buffer is under way, so the rate is at most buffer_bytes per delay. Fires for each piece delayed.
struct Latency {
  Duration delay{};
  Duration jitter{};
};

// Of each stream by itself. Fires for each piece sent at that pace.
struct Bandwidth {
  std::uint64_t bytes_per_second = 0;
};

// The end of the stream (FIN) is held back. Fires when it is.
struct SlowClose {
  Duration delay{};
};

// A black hole: nothing passes any more, neither bytes nor an end, and nobody is told. What came stays in the proxy's
// buffer and, once that is full, with its sender; when the toxic is removed all of it goes on. Fires for each stream of
// which something is held.
struct Timeout {
  std::optional<Duration> close_after = {};  // then the stream ends (FIN), what it held is lost; nullopt: never
};

// Both ends are reset (RST) when `from_byte` bytes of the stream have been handed on. A reset destroys what an end has
// not read yet. Fires once a connection.
struct ResetPeer {};

// Bytes go on in slices of their own, each a system call and, on most paths, a packet. Fires for each cut.
struct Slicer {
  std::size_t slice_bytes = 1;
  Duration pause{};  // between slices
};

// The stream ends (FIN) after `from_byte` bytes; what its sender says afterwards is swallowed. The other way goes on.
// Fires once a stream.
struct LimitData {};

// One bit of byte `from_byte` is turned over. Fires once a stream, if that byte comes.
struct Corrupt {
  std::optional<int> bit = {};  // 0..7; nullopt: drawn from the proxy's seed
};

using Toxic = std::variant<Latency, Bandwidth, SlowClose, Timeout, ResetPeer, Slicer, LimitData, Corrupt>;

// "slicer slice_bytes=1 on lane(0->1) of rank 1, connection 2, to the client, bytes 10..20"
std::string ToString(const Scope& scope, const Toxic& toxic);
// kInvalidArgument names the value that makes no sense.
Status Check(const Scope& scope, const Toxic& toxic);

// A toxic at work. Its counter may be read by any thread and outlives the proxy.
struct Toxicity {
  Toxicity(Scope where, Toxic what, std::uint64_t order) : scope(std::move(where)), toxic(what), number(order) {}
  const Scope scope;
  const Toxic toxic;
  const std::uint64_t number;  // in the order of their adding, from 1: what its random draws depend on
  FireCount fired;
};
using ToxicHandle = std::shared_ptr<const Toxicity>;

}  // namespace rondo::fault
