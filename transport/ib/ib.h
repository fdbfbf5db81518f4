// A transport that uses InfiniBand or RoCE through libibverbs, and a base transport that reaches all ranks:
//
//   auto transport = MakeIbTransport(tcp, {.port = "mlx5_0"});   // Result<std::shared_ptr<Transport>>
//
// A lane between two ranks is a reliable connection between their RDMA ports. The ends agree on it over a lane of the
// base transport, which is authenticated and needs no IP over InfiniBand. If RDMA is impossible, that base lane carries
// the bytes, and DescribePeer says why. When a port fails later, lanes continue on the next port, and finally on the
// base transport; no byte is lost (transport/ib/lane.h). A lane sends from memory of Allocate or Register without a
// copy, and the peer can write into such memory directly (Lane::Expect). If memory cannot be registered (memlock),
// Allocate returns unregistered memory, and Register returns kResource. For memory of devices see
// IbOptions::device_memory. The base transport has the control connections, so it reports the death of a peer.
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
  // The RDMA ports to use: a device "mlx5_0", a port "mlx5_0:1", or an address "10.0.0.1" that the port has. Join
  // several by "+", in the order in which lanes try them: the first port carries all lanes, and the next is used if the
  // first fails. "": all active ports, the fastest first.
  std::string port = {};
  // False: a rank without an RDMA port is an error, and a lane that cannot use RDMA fails. True: the base transport is
  // used instead, and DescribeAddress and DescribePeer say why.
  bool may_fall_back = true;
  // Ranks with equal host ids (except "") use the base transport's lanes between them. At most 255 bytes.
  std::string host_id = {};
  // The ring size of each direction of each lane, registered at both ends; a power of two from 4096 to 2^30.
  std::size_t ring_bytes = 1024 * 1024;
  // An unacknowledged packet is sent again after 4.096 us x 2^timeout_exponent (1 to 31), `retries` times (0 to 6). By
  // default the connection to a silent peer fails after 1.9 s.
  int timeout_exponent = 16;
  int retries = 6;
  // The method by which adapters get access to memory of a GPU (transport/device_memory.h). kAuto: as dma-buf if the
  // adapters of all ports take dma-bufs, otherwise by address if nvidia_peermem is loaded. Both conditions are checked
  // once, when the transport is made.
  DeviceMemoryChoice device_memory = DeviceMemoryChoice::kAuto;
  int service_level = 0;     // 0 to 15, for InfiniBand
  int traffic_class = 0;     // 0 to 255, for RoCE
  Logger* logger = nullptr;  // must outlive the transport; gets a line when a lane's port has failed
};

// kInvalidArgument: the message names the option. kUnsupported, kUnreachable: there is no such RDMA port, and falling
// back is not allowed. Thread rule of the result: transport/transport.h. All processes of a job must use this
// transport, or none.
Result<std::shared_ptr<Transport>> MakeIbTransport(std::shared_ptr<Transport> base, IbOptions options);

// Returns the address of the base transport that an address of this transport contains. Returns any other address
// unchanged.
std::string BaseOfIbAddress(const std::string& address);

// Checks whether MakeIbTransport would find a port for this text (IbOptions::port). Errors: those of MakeIbTransport.
Status CheckIbPort(const std::string& port);

}  // namespace rondo
