// THE contract of a transport: how one rank reaches its peers.
//
//   Transport   one per process and kind of transport: the listener, the devices and the registrations. All
//               communicators share it, and it is thread-safe.
//   Endpoint    one per communicator and rail: its lanes, its poll set, its wake-up. One thread at a time owns it.
//   Lane        an ordered byte stream to one peer (transport/lane.h).
//
// Control messages (goodbye, abort, heartbeat) never travel on a lane. Each pair of peers that shares a lane also
// shares one control connection. The transport's own thread serves that connection, if the transport has a thread. If
// the connection ends without a goodbye, the peer counts as dead, so a death is noticed at once.
//
// Every transport must pass tests/conformance.
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

// What a transport can do. The values never change during its life.
struct Capabilities {
  bool push = false;          // Lane::Expect may succeed
  bool late_release = false;  // Lane::released() may lag behind accepted()
  // CPU cores of this host move the bytes, outside of the owner's system calls (soft-RoCE). If ranks share cores, a
  // polling thread takes cores away from that work, so a waiting thread should sleep.
  bool moves_on_cores = false;
};

enum class ControlKind : std::uint8_t { kGoodbye = 1, kAbort = 2, kHeartbeat = 3 };

// The communicator writes and reads `body` (collectives/communicator/control.h); a transport only carries it.
struct ControlMessage {
  ControlKind kind = ControlKind::kHeartbeat;
  std::string body;
};
inline constexpr std::size_t kMaxControlBodyBytes = 4096;

// Called when something happens to an endpoint or its peers. Calls come from the transport's own thread, or from inside
// Endpoint::Poll, one at a time per endpoint. During a call, the observer must not use the endpoint, except for
// SendControl, ControlPeers and Wake. No call begins after ~Endpoint has begun.
class PeerObserver {
 public:
  virtual ~PeerObserver() = default;
  virtual void OnControl(Rank from, ControlMessage message) = 0;
  // The control connection with `peer` ended without a goodbye, or could not be made before its deadline. Called at
  // most once per peer. The error names the peer as culprit.
  virtual void OnPeerLost(Rank peer, Error error) = 0;
  // Called instead of OnPeerLost if no connection with `peer` was ever made and no process listens at its addresses any
  // more. Then the peer's process or transport has ended, and this transport cannot find out whether the peer sent a
  // goodbye.
  virtual void OnPeerEndedBefore(Rank peer, Error error) { OnPeerLost(peer, std::move(error)); }
  // This endpoint no longer works, and no peer is the cause. The transport's own thread ran out of memory, so some of
  // its work may be missing.
  virtual void OnTransportFailed(const Error& error) { static_cast<void>(error); }
};

struct EndpointConfig {
  // The number of the communicator, the same on all its ranks; part of every lane's name.
  std::uint64_t communicator = 0;
  std::uint32_t rail = 0;  // the same on all ranks; the rail of the endpoint's first lanes (transport/rail.h)
  Rank rank = 0;           // the rank of this process in the communicator
  std::vector<std::string> addresses;  // by rank: what each peer's Transport::Address() returned
  PeerObserver* observer = nullptr;    // must outlive the endpoint
  // The longest time to connect to one peer, from the first Open that needs the connection.
  Duration connect_timeout = std::chrono::seconds(30);
  // How log lines name the endpoint's ranks. Null: by the ranks of this communicator, which are then also the job's
  // ranks. Errors always use the ranks of this communicator; the communicator adds the job's ranks.
  std::shared_ptr<const RankFrame> frame = nullptr;
};

class Endpoint {
 public:
  virtual ~Endpoint() = default;  // closes everything at once and sends no goodbye

  // ---- the owner's part: one thread at a time ----

  // Returns the lane `index` (transport/lane_index.h) to `peer`. The first call makes it, and later calls return the
  // same lane, which may still be connecting. Both ends must open the lane, in any order. If one end sends first, its
  // bytes wait until the other end has opened the lane. kResource: a limit of the system or the transport would be
  // exceeded (nothing was made).
  virtual Result<Lane*> Open(Rank peer, std::uint32_t index) = 0;

  // Whether OpenSharedSegment may be called (transport/shared_segment.h). The answer is the same on all ranks.
  virtual bool MayHaveSharedSegment() const { return false; }
  // Returns the endpoint's shared segment, which lives as long as the endpoint. The first call begins to make it.
  // REQUIRES: MayHaveSharedSegment. Errors: those of Open, on this rank alone. The other ranks notice the error when
  // this rank's communicator fails.
  virtual Result<SharedSegment*> OpenSharedSegment() {
    return Fail(ErrorCode::kUnsupported, "this transport has no shared segments");
  }

  // Does the transport's own work on the owner's thread: adopts connections, advances release offsets, delivers due
  // bytes. It is cheap if there is nothing to do. Lanes also move bytes in their own calls.
  virtual void Poll(TimePoint now) = 0;

  // Announces that the owner will sleep, then checks once more. True: bytes arrived, space became free or Wake was
  // called since the owner last found nothing to do, so the owner must not sleep. After false, wait_fd() becomes
  // readable when one of these happens. In both cases the owner must call Disarm() afterwards.
  virtual bool Arm() = 0;
  virtual void Disarm() = 0;

  // A descriptor to poll for reading between Arm and Disarm. -1: only the injected Waiter can wait (simulation).
  virtual int wait_fd() const = 0;

  // Revokes every lane (Lane::Revoke). The error path calls this.
  virtual void Revoke() = 0;

  // Shuts down writing on all lanes and control connections; bytes that were written before are still sent. Close()
  // calls this after goodbyes have been exchanged. After ShutDown no peer sees the destructor as a reset connection.
  virtual void ShutDown() = 0;

  // Leaves a message for peers that connect from now on. Such a peer receives the message, and then its connection
  // ends. So a late peer learns how this rank ended, as connected peers did. Peers that are connected already do not
  // receive the message.
  //
  // The message stays while this endpoint exists. Afterwards it stays for the endpoint's name (communicator, rail) on
  // this transport, until another endpoint opens with that name. Call this function with a goodbye before ShutDown, or
  // with an abort before the destructor; a second message replaces the first.
  virtual void LeaveBehind(const ControlMessage& message) = 0;

  // ---- any thread ----

  // Wakes the sleeping owner, or makes its next Arm return true.
  virtual void Wake() = 0;

  // Sends to a peer whose control connection exists or is being made. Returns false if there is none; nothing was sent.
  // Never blocks. As far as the connection has room, the bytes are handed to the system before the call returns. The
  // system sends them even if the process ends right after. Messages to one peer arrive in order. A connection that is
  // being made queues messages, and sends them when it is established.
  virtual bool SendControl(Rank peer, const ControlMessage& message) = 0;

  // The peers whose control connection is established or being made, no matter which side connects.
  virtual std::vector<Rank> ControlPeers() const = 0;

  // Whether the control connection with that peer is established: false while it is being made, and after it has ended.
  virtual bool IsConnected(Rank peer) const = 0;

  // True if each message given to SendControl was handed to the system, or its connection has ended.
  virtual bool ControlFlushed() const = 0;

  // The name of the transport that carries bytes to `peer`, such as "tcp". Before the path is made: the expected name.
  virtual std::string_view TransportTo(Rank peer) const = 0;

  // How the path to `peer` was chosen, in words, for `rondo explain` and errors: "10.0.0.2:41234 via eth0 (same
  // subnet; cubic)".
  virtual std::string DescribePeer(Rank peer) const = 0;

  // This rank's end of the link to `peer`, as it is now.
  virtual LinkEnd LinkTo(Rank peer) const = 0;
};

class DeviceRegistrar;

// Thread rule: any thread.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual std::string_view name() const = 0;  // "tcp"
  virtual const Capabilities& capabilities() const = 0;

  // What peers need to reach this process: an opaque text of at most kMaxAddressBytes, published through the store.
  virtual std::string Address() const = 0;
  // How the address of this process was chosen, for `rondo explain`: one line per candidate, and the choice with its
  // reason.
  virtual std::string DescribeAddress() const = 0;

  // Makes the endpoint of one communicator and rail. REQUIRES: the name (communicator, rail) is not in use.
  virtual Result<std::unique_ptr<Endpoint>> OpenEndpoint(const EndpointConfig& config) = 0;

  // Allocates page-aligned, zeroed memory of the kind that this transport moves best, or plain memory if that kind is
  // not available. kOutOfMemory: the message names the number of bytes. Zero bytes are legal.
  virtual Result<std::unique_ptr<Memory>> Allocate(std::size_t bytes) = 0;
  // Registers the caller's memory. A transport that registers no memory does nothing here. kResource: the system
  // refuses to register; operations can still use the memory, with a copy.
  virtual Result<std::unique_ptr<Registration>> Register(MutableBytes memory) = 0;

  // The object that registers memory of devices (transport/device_memory.h); it lives as long as the transport. Null:
  // no lane of this transport ever sends from such memory.
  virtual DeviceRegistrar* device_registrar() { return nullptr; }
};
inline constexpr std::size_t kMaxAddressBytes = 4096;

}  // namespace rondo
