// Shared memory between ranks of one host, and a base transport that reaches all ranks:
//
//   ShmOptions options;
//   options.host_id = LocalHostId();
//   auto transport = MakeShmTransport(tcp, std::move(options));   // Result<std::shared_ptr<Transport>>
//
// So this transport selects a path per peer: rings for ranks that share a kernel, the base transport's lanes for
// others. Each lane proves that both ends are on one host, by memory that both have mapped (lane.h). If they cannot map
// it (another user, another network namespace, no memory), the base lane carries the bytes and DescribePeer says why.
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
  std::string host_id = {};  // LocalHostId(); empty: no process counts as being on this host. At most 255 bytes
  // The size of each direction of each lane; a power of two, at least 4096. A size that fits both cores' second-level
  // caches is best.
  std::size_t ring_bytes = 256 * 1024;
  Logger* logger = nullptr;  // outlives the transport
  // For tests: called after each step of setting up shared memory ("lane called", "segment mapped", ...). A test may
  // end the process there.
  std::function<void(std::string_view step)> watch_steps = {};
};

// kInvalidArgument: `ring_bytes` is wrong. Thread rule of the result: transport/transport.h. All processes of a job
// must use this transport, or none: an address of the base transport alone is refused.
Result<std::shared_ptr<Transport>> MakeShmTransport(std::shared_ptr<Transport> base, ShmOptions options);

// Returns the base transport's address that an address of this transport contains; any other address unchanged.
std::string BaseOfShmAddress(const std::string& address);

}  // namespace rondo
