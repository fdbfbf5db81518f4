// THE contract of a transport: how one rank reaches its peers.
//
//   Transport   one per process and kind: listener, device, registrations. Shared by all communicators, locked inside.
//   Endpoint    one per communicator and rail: its lanes, its poll set, its wake-up. Owned by one thread at a time.
//   Lane        an ordered byte stream to one peer (transport/lane.h).
//
// The control plane (goodbye, abort, heartbeat) never travels on a lane: each pair of peers that shares a lane also
// shares one control connection, served by the transport's own thread if it has one. When that connection ends without
// a goodbye, the peer is dead: so a death is noticed at once.
//
// Every transport passes tests/conformance.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/rank_frame.h"
#include "base/result.h"
#include "transport/lane.h"
#include "transport/link_end.h"
#include "transport/memory.h"
#include "transport/shared_segment.h"

namespace rondo {

// What a transport can do; fixed for its life.
struct Capabilities {
  bool push = false;          // Lane::Expect may succeed
  bool late_release = false;  // released() may lag behind accepted()
  // Cores of this host move the bytes outside of the owner's system calls (soft-RoCE). If ranks share cores, a thread
  // that polls takes the cores away from that work, so it should sleep.
  bool moves_on_cores = false;
};

enum class ControlKind : std::uint8_t { kGoodbye = 1, kAbort = 2, kHeartbeat = 3 };

// `body` is the communicator's (collectives/communicator/control.h); a transport only carries it.
struct ControlMessage {
  ControlKind kind = ControlKind::kHeartbeat;
  std::string body;
};
inline constexpr std::size_t kMaxControlBodyBytes = 4096;

// Receives what happens to an endpoint's peers. Calls come from the transport's own thread, or from inside
// Endpoint::Poll, one at a time per endpoint. An observer may call SendControl, ControlPeers and Wake from inside,
// nothing else. Never called after ~Endpoint began.
class PeerObserver {
 public:
  virtual ~PeerObserver() = default;
  virtual void OnControl(Rank from, ControlMessage message) = 0;
  // The control connection with `peer` ended without a goodbye, or could not be made before its deadline. At most once
  // per peer. The error's culprit is the peer.
  virtual void OnPeerLost(Rank peer, Error error) = 0;
  // In place of OnPeerLost: no connection with `peer` was ever made, and nothing listens at its addresses any more. So
  // its process or its transport has ended, and this transport cannot know whether with a goodbye.
  virtual void OnPeerEndedBefore(Rank peer, Error error) { OnPeerLost(peer, std::move(error)); }
  // The transport cannot serve this endpoint any more, and no peer is the cause: its own thread ran out of memory, and
  // may have left any work undone.
  virtual void OnTransportFailed(const Error& error) { static_cast<void>(error); }
};

struct EndpointConfig {
  std::uint64_t communicator = 0;      // agreed by all its ranks; part of every lane's name
  std::uint32_t rail = 0;              // agreed as well; the rail of its first lanes (transport/rail.h)
  Rank rank = 0;                       // this process in that communicator
  std::vector<std::string> addresses;  // by rank: what each peer's Transport::Address() gave
  PeerObserver* observer = nullptr;    // outlives the endpoint
  Duration connect_timeout = std::chrono::seconds(30);  // for one peer, from the first Open that needs it
  std::shared_ptr<const RankFrame> frame = nullptr;  // how logs name its ranks; null: they are the job's. Errors name
                                                     // them by the numbers here; the communicator adds the job's
};

class Endpoint {
 public:
  virtual ~Endpoint() = default;  // closes everything at once, without a goodbye where none was sent

  // ---- the owner's part: one thread at a time ----

  // The lane `index` (transport/lane_index.h) to `peer`, made when first asked for and then the same one again; it may
  // still be connecting. Both ends open it, in any order; bytes wait in the wire until the other end has. kResource: a
  // limit of the system or the transport would be passed (nothing was made).
  virtual Result<Lane*> Open(Rank peer, std::uint32_t index) = 0;

  // Whether it makes sense to ask for a shared segment (transport/shared_segment.h); the same on all ranks.
  virtual bool MayHaveSharedSegment() const { return false; }
  // The endpoint's shared segment, begun when first asked for; it lives as long as the endpoint. REQUIRES:
  // MayHaveSharedSegment. Errors: those of Open, on this rank alone; the other ranks learn of it when this one's
  // communicator fails.
  virtual Result<SharedSegment*> OpenSharedSegment() {
    return Fail(ErrorCode::kUnsupported, "this transport has no shared segments");
  }

  // Does the transport's own work that needs the owner's thread: adopts connections, advances release offsets, delivers
  // due bytes. Cheap when there is nothing to do. Lanes move bytes in their own calls too.
  virtual void Poll(TimePoint now) = 0;

  // Announces that the owner is going to sleep, then looks again. True: bytes arrived, space became free or Wake was
  // called since the lanes last answered "nothing", so the owner must not sleep. After false, wait_fd() becomes
  // readable when one of these happens. The owner calls Disarm() afterwards in both cases.
  virtual bool Arm() = 0;
  virtual void Disarm() = 0;

  // A descriptor to poll for reading between Arm and Disarm; -1 where only the injected Waiter can wait (simulation).
  virtual int wait_fd() const = 0;

  // Revokes every lane (Lane::Revoke). For the error path.
  virtual void Revoke() = 0;

  // Shuts down writing on all lanes and control connections, after what was written. For the end of Close(): goodbyes
  // have been exchanged. After it no peer sees the destructor as a reset.
  virtual void ShutDown() = 0;

  // Leaves a message for peers that connect from now on: to this endpoint and, after it is destroyed, to its name on
  // this transport, until another endpoint has that name. Such a peer gets the message, and then the connection ends.
  // So a late peer learns how this rank ended, as connected peers did. Call it with a goodbye before ShutDown, or with
  // an abort before the destructor; a second message replaces the first. Connected peers do not get the message.
  virtual void LeaveBehind(const ControlMessage& message) = 0;

  // ---- any thread ----

  // Makes the sleeping owner wake, or its next Arm answer true.
  virtual void Wake() = 0;

  // Sends to a peer with which a control connection exists or is being made; false if there is none (nothing was sent).
  // Never blocks; when it returns the bytes are on their way even if the process ends right after, as far as the
  // connection had room. In order per peer. A connection that is being made queues messages, and sends them once it is
  // established.
  virtual bool SendControl(Rank peer, const ControlMessage& message) = 0;

  // The peers with which a control connection is established or being made, no matter which side began it.
  virtual std::vector<Rank> ControlPeers() const = 0;

  // Whether a control connection with that peer is established: false while it is being made, and after it has ended.
  virtual bool IsConnected(Rank peer) const = 0;

  // Whether everything given to SendControl has left this process, or never will because its connection has ended.
  virtual bool ControlFlushed() const = 0;

  // The name of the transport that carries bytes to `peer`, "tcp"; of a path that is not made yet, the expected one.
  virtual std::string_view TransportTo(Rank peer) const = 0;

  // How the path to `peer` was chosen, in words, for explain and errors: "10.0.0.2:41234 via eth0 (same subnet;
  // cubic)".
  virtual std::string DescribePeer(Rank peer) const = 0;

  // This end of that path, as it is now.
  virtual LinkEnd LinkTo(Rank peer) const = 0;
};

class DeviceRegistrar;

// Thread rule: any thread.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual std::string_view name() const = 0;  // "tcp"
  virtual const Capabilities& capabilities() const = 0;

  // What peers need to reach this process, opaque, at most kMaxAddressBytes, published through the store.
  virtual std::string Address() const = 0;
  // How that address came about, one line per candidate and the choice with its reason, for `rondo explain`.
  virtual std::string DescribeAddress() const = 0;

  // The endpoint of one communicator and rail. REQUIRES: the name (communicator, rail) is not in use.
  virtual Result<std::unique_ptr<Endpoint>> OpenEndpoint(const EndpointConfig& config) = 0;

  // Page-aligned memory, zeroed, of the kind that this transport moves best; plain memory if that kind is not to be
  // had. kOutOfMemory names the bytes. Zero bytes is legal.
  virtual Result<std::unique_ptr<Memory>> Allocate(std::size_t bytes) = 0;
  // Does nothing in a transport that registers no memory. kResource: the system refuses to register; operations can
  // still use the memory, with a copy.
  virtual Result<std::unique_ptr<Registration>> Register(MutableBytes memory) = 0;

  // Registers memory of devices (transport/device_memory.h); lives as long as the transport. Null: no lane of this
  // transport ever sends from such memory.
  virtual DeviceRegistrar* device_registrar() { return nullptr; }
};
inline constexpr std::size_t kMaxAddressBytes = 4096;

}  // namespace rondo
