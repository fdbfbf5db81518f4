// InfiniBand and RoCE by verbs, beside a base transport that reaches everybody:
//
//   auto transport = MakeIbTransport(tcp, {.port = "mlx5_0"});   // Result<std::shared_ptr<Transport>>
//
// A lane between two ranks is a reliable connection between their RDMA ports. What has to be agreed on is said over a
// lane of the base transport, which is authenticated and needs no IP over InfiniBand; where RDMA cannot be, that lane
// carries the bytes, and DescribePeer says why. When a port fails later, lanes go on by the next port, and in the end
// by the base transport's, with nothing lost (transport/ib/lane.h). From memory of Allocate or Register a lane sends
// without a copy, and receives so what is expected there (Lane::Expect); where that cannot be registered (memlock),
// Allocate gives memory all the same, and Register kResource. Of memory of devices see IbOptions::device_memory.
// Control connections, and so the news of a death, are the base transport's.
//
// libibverbs is loaded at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/log.h"
#include "base/result.h"
#include "transport/ib/device_memory_probe.h"
#include "transport/transport.h"

namespace rondo {

struct IbOptions {
  // A device "mlx5_0", a port "mlx5_0:1", or an address "10.0.0.1" that the port has. Several, joined by "+", in the
  // order in which lanes try them: the first carries them, the next stands by until it fails. "": all active ones, the
  // fastest first.
  std::string port = {};
  // False: a rank without an RDMA port, and a lane that cannot have RDMA, is an error. True: the base transport serves
  // instead, and DescribeAddress and DescribePeer say why.
  bool may_fall_back = true;
  // Ranks with the same one, which is not "", keep the base transport's lanes among them. At most 255 bytes.
  std::string host_id = {};
  // Of each direction of each lane, registered, at both ends; a power of two from 4096 to 2^30.
  std::size_t ring_bytes = 1024 * 1024;
  // A packet that is not acknowledged is sent again after 4.096 us x 2^timeout_exponent (1 to 31), `retries` times (0
  // to 6): 1.9 s until a silent peer is given up.
  int timeout_exponent = 16;
  int retries = 6;
  // How adapters are told of memory of a GPU (transport/device_memory.h). kAuto: as dma-buf if all ports' adapters take
  // such, else by address if nvidia_peermem is loaded; both are looked at once, when the transport is made.
  DeviceMemoryChoice device_memory = DeviceMemoryChoice::kAuto;
  int service_level = 0;     // 0 to 15, of InfiniBand
  int traffic_class = 0;     // 0 to 255, of RoCE
  Logger* logger = nullptr;  // outlives the transport; told when a lane's port has failed
};

// kInvalidArgument names the option; kUnsupported, kUnreachable: no fitting RDMA port, and no falling back. Thread rule
// of the result: transport/transport.h. Processes of one job must all have it or none.
Result<std::shared_ptr<Transport>> MakeIbTransport(std::shared_ptr<Transport> base, IbOptions options);

// The base transport's address in that of a transport that MakeIbTransport made; any other as it is.
std::string BaseOfIbAddress(const std::string& address);

// Whether MakeIbTransport would find a port by these words (IbOptions::port). Errors: its own.
Status CheckIbPort(const std::string& port);

}  // namespace rondo
