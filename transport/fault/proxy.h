// A TCP proxy in this process. It does to real connections what networks do: it slows, cuts and stalls them, and splits
// and corrupts their bytes.
//
//   auto proxy = fault::Proxy::Start({.seed = 7});                               // Result<std::shared_ptr<Proxy>>
//   auto port = (*proxy)->Listen({.name = "store", .to = "127.0.0.1:29500"});    // give tcp://127.0.0.1:PORT to ranks
//   auto cut = (*proxy)->Add({.listener = "store", .connection = 2, .from_byte = 100}, fault::ResetPeer{});
//   ...
//   CHECK((*cut)->fired.count() == 1);                                           // otherwise nothing was tested
//
// For each connection to a listener the proxy makes a connection to the route's target. Bytes, ends (FIN) and resets
// (RST) pass in both directions, through the toxics that apply to them (toxic.h). proxied_transport.h connects ranks
// through a proxy.
//
// A proxied connection differs from a direct one. The proxy accepts a client before it has reached the target. So if no
// process listens at the target, the client sees a reset and not a refusal (Refuse makes a refusal). Also, the kernel's
// buffers on both sides of the proxy hold a few hundred kilobytes that a receiver has not read.
//
// Thread rule: any thread except the proxy's own. Calls take effect before they return. Time limits are real time.
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
  std::uint64_t seed = 1;  // the seed of all random values (flow.h)
  // The size of the buffer for each direction of each connection. While the buffer is full, the proxy does not read.
  std::size_t buffer_bytes = 256 * 1024;
  std::size_t max_connections = 1024;       // further connections are reset
  std::shared_ptr<const Clock> clock = {};  // null: the machine's clock
};

struct ProxyRoute {
  std::string name = {};          // the name for Scope::listener; several listeners may share it
  std::string at = "127.0.0.1";   // the numeric local address to listen on; the system chooses the port
  std::string to = {};            // a numeric address: "127.0.0.1:29500", "[::1]:29500"
  MakeRecogniser recognise = {};  // names the streams; empty: they have no names
};

// Counts connections, bytes and events. Any thread may read it.
struct ProxyCounters {
  std::atomic<std::uint64_t> connections{0};  // accepted connections
  // Accepted connections that were reset because the target could not be reached.
  std::atomic<std::uint64_t> unreachable{0};
  std::atomic<std::uint64_t> beyond_limit{0};  // accepted connections that were reset because of max_connections
  std::atomic<std::uint64_t> bytes{0};         // bytes forwarded, in both directions
  FireCount refused;  // how often the proxy has connected to itself and found that Refuse works
  FireCount paused;   // connections and streams that a Pause held back while they had bytes
};

class Proxy {
 public:
  // kResource: no descriptors or threads are left. kInvalidArgument: buffer_bytes or max_connections is 0.
  static Result<std::shared_ptr<Proxy>> Start(ProxyOptions options = {});
  // Resets all connections.
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  // Begins to accept connections, and returns the port. kInvalidArgument: the message names the address. kResource,
  // kAddressInUse: the system refuses.
  Result<std::uint16_t> Listen(ProxyRoute route);

  // Adds a toxic, for current and future connections. kInvalidArgument: an invalid value, or an unknown listener.
  Result<ToxicHandle> Add(Scope scope, Toxic toxic);
  // Removes a toxic. Bytes that it held back are sent; effects that have already happened stay.
  void Remove(const ToxicHandle& toxic);
  void RemoveAll();

  // Pauses all listeners with the name `listener`; "": all listeners. Until Resume no byte passes, and no connection is
  // accepted. (The kernel lets clients connect, but they get no reply.) kInvalidArgument: no listener has this name.
  Status Pause(const std::string& listener);
  Status Resume(const std::string& listener);

  // Stops listening at the ports of all listeners with the name `listener`, so that clients are refused. Current
  // connections continue. The proxy reserves the ports, so that AcceptAgain can use them again. kResource,
  // kAddressInUse: the call failed.
  Status Refuse(const std::string& listener);
  Status AcceptAgain(const std::string& listener);

  const ProxyCounters& counters() const;

 private:
  struct Impl;
  explicit Proxy(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace rondo::fault
