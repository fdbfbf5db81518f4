// Shared memory between ranks of one host, beside a base transport that reaches everybody:
//
//   ShmOptions options;
//   options.host_id = LocalHostId();
//   auto transport = MakeShmTransport(tcp, std::move(options));   // Result<std::shared_ptr<Transport>>
//
// So it is also what picks a path per peer: rings for ranks that share a kernel, the base transport's lanes for others.
// Being on one host is proved, lane by lane, by memory that both have mapped (lane.h); where it cannot be (another
// user, another network namespace, no memory), the base lane carries the bytes and DescribePeer says why.
//
// Control connections, and so the news of a death, are the base transport's.
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
  // Of each direction of each lane; a power of two from 4096 on. What fits both cores' second-level caches is best.
  std::size_t ring_bytes = 256 * 1024;
  Logger* logger = nullptr;  // outlives the transport
  // Told of each step by which memory comes to be shared ("lane called", "segment mapped", ...), as it has been done.
  // For tests: it may end the process there.
  std::function<void(std::string_view step)> watch_steps = {};
};

// kInvalidArgument: ring_bytes. Thread rule of the result: transport/transport.h. Processes of one job must all have it
// or none: an address of the base transport alone is refused.
Result<std::shared_ptr<Transport>> MakeShmTransport(std::shared_ptr<Transport> base, ShmOptions options);

// The base transport's address in that of a transport that MakeShmTransport made; any other as it is.
std::string BaseOfShmAddress(const std::string& address);

}  // namespace rondo
