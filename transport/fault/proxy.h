// A TCP proxy in this process that does to real sockets what networks do: slow down, cut, stall, split and corrupt.
//
//   auto proxy = fault::Proxy::Start({.seed = 7});                               // Result<std::shared_ptr<Proxy>>
//   auto port = (*proxy)->Listen({.name = "store", .to = "127.0.0.1:29500"});    // give tcp://127.0.0.1:PORT to ranks
//   auto cut = (*proxy)->Add({.listener = "store", .connection = 2, .from_byte = 100}, fault::ResetPeer{});
//   ...
//   CHECK((*cut)->fired.count() == 1);                                           // or nothing was tested
//
// For each connection to a listener the proxy makes one to the route's target. Bytes, ends (FIN) and resets (RST) pass
// in both directions, through the toxics that concern them (toxic.h). For ranks: proxied_transport.h.
//
// A proxied connection differs from a direct one. A client is accepted before the target is reached, so if no process
// listens there the client sees a reset, not a refusal (Refuse makes a refusal). And the kernel's buffers on both sides
// of the proxy hold some hundred kilobytes that a receiver has not read.
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
  std::uint64_t seed = 1;  // all random values depend on it (flow.h)
  std::size_t buffer_bytes =
      256 * 1024;                      // of each direction of each connection; while it is full the proxy does not read
  std::size_t max_connections = 1024;  // one more is reset
  std::shared_ptr<const Clock> clock = {};  // null: the machine's
};

struct ProxyRoute {
  std::string name = {};          // for Scope::listener; several listeners may share one
  std::string at = "127.0.0.1";   // the numeric local address to listen on; the port is a free one
  std::string to = {};            // numeric: "127.0.0.1:29500", "[::1]:29500"
  MakeRecogniser recognise = {};  // names the streams; none: they have no names
};

// Counts what has passed. Any thread may read it.
struct ProxyCounters {
  std::atomic<std::uint64_t> connections{0};   // accepted
  std::atomic<std::uint64_t> unreachable{0};   // of these, reset because the target could not be reached
  std::atomic<std::uint64_t> beyond_limit{0};  // of these, reset because of max_connections
  std::atomic<std::uint64_t> bytes{0};         // passed on, in both directions
  FireCount refused;                           // how often Refuse was seen to work, by a connection of the proxy's own
  FireCount paused;                            // connections and streams that a Pause held back, once they had bytes
};

class Proxy {
 public:
  // kResource: descriptors or threads. kInvalidArgument: buffer_bytes or max_connections of 0.
  static Result<std::shared_ptr<Proxy>> Start(ProxyOptions options = {});
  // Resets all connections.
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  // Begins to accept connections, and returns the port. kInvalidArgument names the address; kResource, kAddressInUse.
  Result<std::uint16_t> Listen(ProxyRoute route);

  // Adds a toxic, for present and future connections. kInvalidArgument: an invalid value, or an unknown listener.
  Result<ToxicHandle> Add(Scope scope, Toxic toxic);
  // Removes a toxic. Bytes that it held back go on; other effects stay.
  void Remove(const ToxicHandle& toxic);
  void RemoveAll();

  // For the listeners of that name ("": all) no byte passes, and no connection is accepted, until Resume. (The kernel
  // lets clients connect, but they get no answer.) kInvalidArgument: there is no such listener.
  Status Pause(const std::string& listener);
  Status Resume(const std::string& listener);

  // Stops listening at their ports, so that clients are refused; present connections go on. The proxy keeps the ports,
  // so that AcceptAgain gets them back. kResource, kAddressInUse: that failed.
  Status Refuse(const std::string& listener);
  Status AcceptAgain(const std::string& listener);

  const ProxyCounters& counters() const;

 private:
  struct Impl;
  explicit Proxy(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace rondo::fault
