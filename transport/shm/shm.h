// Shared memory between ranks of one host, beside a base transport that reaches all ranks:
//
//   ShmOptions options;
//   options.host_id = LocalHostId();
//   auto transport = MakeShmTransport(tcp, std::move(options));   // Result<std::shared_ptr<Transport>>
//
// So it also picks a path per peer: rings for ranks that share a kernel, the base transport's lanes for others. Each
// lane proves that both ends are on one host, by memory that both have mapped (lane.h). If they cannot map it (another
// user, another network namespace, no memory), the base lane carries the bytes and DescribePeer says why.
//
// Control connections are the base transport's, and so it reports the death of a peer.
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
  std::string host_id = {};  // LocalHostId(); empty: no process counts as being here. At most 255 bytes
  // Of each direction of each lane; a power of two from 4096 on. A size that fits both cores' second-level caches is
  // best.
  std::size_t ring_bytes = 256 * 1024;
  Logger* logger = nullptr;  // outlives the transport
  // Called after each step of setting up shared memory ("lane called", "segment mapped", ...). For tests, which may end
  // the process there.
  std::function<void(std::string_view step)> watch_steps = {};
};

// kInvalidArgument: ring_bytes. Thread rule of the result: transport/transport.h. Either all processes of a job use it
// or none: an address of the base transport alone is refused.
Result<std::shared_ptr<Transport>> MakeShmTransport(std::shared_ptr<Transport> base, ShmOptions options);

// The base transport's address, of an address of MakeShmTransport's; any other address unchanged.
std::string BaseOfShmAddress(const std::string& address);

}  // namespace rondo
