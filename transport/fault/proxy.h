// A TCP proxy in this process that does to real sockets what networks do: slow, cut, stall, split and turn over bytes.
//
//   auto proxy = fault::Proxy::Start({.seed = 7});                               // Result<std::shared_ptr<Proxy>>
//   auto port = (*proxy)->Listen({.name = "store", .to = "127.0.0.1:29500"});    // give tcp://127.0.0.1:PORT to ranks
//   auto cut = (*proxy)->Add({.listener = "store", .connection = 2, .from_byte = 100}, fault::ResetPeer{});
//   ...
//   CHECK((*cut)->fired.count() == 1);                                           // or nothing was tested
//
// Each connection that comes to a listener gets one of its own to the route's target; bytes, ends (FIN) and resets
// (RST) go on in both ways, through whatever toxics are at work (toxic.h). For ranks: proxied_transport.h.
//
// It is not the connection itself. A client is accepted before the target is reached, so where nobody listens at the
// target the client sees a reset, no refusal (Refuse gives it a refusal); the kernel's buffers on both sides of the
// proxy take some hundred kilobytes that a receiver has not read.
//
// Thread rule: any thread but its own; calls take effect before they return. Time limits are real time, as sockets are.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "transport/fault/recogniser.h"
#include "transport/fault/toxic.h"

namespace rondo::fault {

struct ProxyOptions {
  std::uint64_t seed = 1;                   // every random value comes from it (flow.h)
  std::size_t buffer_bytes = 256 * 1024;    // of each way of each connection; full, its sender is not read any more
  std::size_t max_connections = 1024;       // one more is reset
  std::shared_ptr<const Clock> clock = {};  // null: the machine's
};

struct ProxyRoute {
  std::string name = {};          // for Scope::listener; several listeners may share one
  std::string at = "127.0.0.1";   // the numeric local address to listen on; the port is a free one
  std::string to = {};            // numeric: "127.0.0.1:29500", "[::1]:29500"
  MakeRecogniser recognise = {};  // names the streams; none: they have no names
};

// What passed. Read by any thread.
struct ProxyCounters {
  std::atomic<std::uint64_t> connections{0};   // accepted
  std::atomic<std::uint64_t> unreachable{0};   // of these: reset because the target could not be reached
  std::atomic<std::uint64_t> beyond_limit{0};  // of these: reset because of max_connections
  std::atomic<std::uint64_t> bytes{0};         // handed on, both ways
  FireCount refused;                           // times a listener was gone, seen by a connection of our own
  FireCount paused;  // connections and streams that a Pause kept waiting, each counted when it had something to say
};

class Proxy {
 public:
  // kResource: descriptors or threads. kInvalidArgument: buffer_bytes or max_connections of 0.
  static Result<std::shared_ptr<Proxy>> Start(ProxyOptions options = {});
  // Resets what is still connected.
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  // Begins to take connections, and says at which port. kInvalidArgument names the address; kResource, kAddressInUse.
  Result<std::uint16_t> Listen(ProxyRoute route);

  // Sets a toxic to work, on connections that stand as on those to come. kInvalidArgument: a value that makes no sense,
  // or a listener that there is not.
  Result<ToxicHandle> Add(Scope scope, Toxic toxic);
  // Ends it. What it has done stays done; what it held goes on.
  void Remove(const ToxicHandle& toxic);
  void RemoveAll();

  // The listeners of that name ("": all): nothing passes, and no connection is taken (the kernel lets clients connect,
  // and they hear nothing), until Resume. kInvalidArgument: there is no such listener.
  Status Pause(const std::string& listener);
  Status Resume(const std::string& listener);

  // Nobody listens at their ports, so clients are refused; connections that stand go on. The port stays ours, so that
  // AcceptAgain gets it back. kResource, kAddressInUse: it could not.
  Status Refuse(const std::string& listener);
  Status AcceptAgain(const std::string& listener);

  const ProxyCounters& counters() const;

 private:
  struct Impl;
  explicit Proxy(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace rondo::fault
