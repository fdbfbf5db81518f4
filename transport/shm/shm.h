// A transport that uses shared memory between ranks of one host, and a base transport that reaches all ranks:
//
//   ShmOptions options;
//   options.host_id = LocalHostId();
//   auto transport = MakeShmTransport(tcp, std::move(options));   // Result<std::shared_ptr<Transport>>
//
// This transport selects a path per peer: rings in shared memory for ranks on the same host, and the base transport's
// lanes for all others. Each lane proves that both ends are on one host, by memory that both have mapped (lane.h). If
// they cannot map that memory (another user, another network namespace, no memory), the base lane carries the bytes,
// and DescribePeer says why.
//
// The base transport has the control connections, so it reports the death of a peer.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/log.h"
#include "base/result.h"
#include "transport/transport.h"

namespace rondo {

struct ShmOptions {
  std::string host_id = {};  // from LocalHostId(); empty: no process counts as being on this host; at most 255 bytes
  // The size of each direction of each lane: a power of two, and at least 4096. The best size fits the second-level
  // caches of both ranks' CPU cores.
  std::size_t ring_bytes = 256 * 1024;
  Logger* logger = nullptr;  // must outlive the transport
  // For tests: called after each step of setting up shared memory ("lane called", "segment mapped", ...). A test may
  // end the process during the call.
  std::function<void(std::string_view step)> watch_steps = {};
};

// kInvalidArgument: `ring_bytes` is wrong. Thread rule of the result: transport/transport.h. Either all processes of a
// job must use this transport, or none. This transport refuses a peer whose address comes directly from the base
// transport.
Result<std::shared_ptr<Transport>> MakeShmTransport(std::shared_ptr<Transport> base, ShmOptions options);

// Returns the address of the base transport that an address of this transport contains. Returns any other address
// unchanged.
std::string BaseOfShmAddress(const std::string& address);

}  // namespace rondo
