// InfiniBand and RoCE by verbs, beside a base transport that reaches all ranks:
//
//   auto transport = MakeIbTransport(tcp, {.port = "mlx5_0"});   // Result<std::shared_ptr<Transport>>
//
// A lane between two ranks is a reliable connection between their RDMA ports. The ends agree on it over a lane of the
// base transport, which is authenticated and needs no IP over InfiniBand. If RDMA is impossible, that lane carries the
// bytes, and DescribePeer says why. When a port fails later, lanes go on by the next port, and in the end by the base
// transport, and no byte is lost (transport/ib/lane.h). From memory of Allocate or Register a lane sends without a
// copy, and the peer can write into such memory directly (Lane::Expect). If memory cannot be registered (memlock),
// Allocate returns other memory, and Register kResource. For memory of devices see IbOptions::device_memory. Control
// connections are the base transport's, and so it reports the death of a peer.
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
  // order in which lanes try them: the first carries all lanes, the next is used when it fails. "": all active ones,
  // the fastest first.
  std::string port = {};
  // False: a rank without an RDMA port is an error, and so is a lane that cannot have RDMA. True: the base transport
  // serves instead, and DescribeAddress and DescribePeer say why.
  bool may_fall_back = true;
  // Ranks with equal values other than "" keep the base transport's lanes among them. At most 255 bytes.
  std::string host_id = {};
  // The ring of each direction of each lane, registered at both ends; a power of two from 4096 to 2^30.
  std::size_t ring_bytes = 1024 * 1024;
  // A packet that is not acknowledged is sent again after 4.096 us x 2^timeout_exponent (1 to 31), `retries` times (0
  // to 6): by default a silent peer is given up after 1.9 s.
  int timeout_exponent = 16;
  int retries = 6;
  // How adapters get access to memory of a GPU (transport/device_memory.h). kAuto: as dma-buf if all ports' adapters
  // take them, otherwise by address if nvidia_peermem is loaded. Both are checked once, when the transport is made.
  DeviceMemoryChoice device_memory = DeviceMemoryChoice::kAuto;
  int service_level = 0;     // 0 to 15, of InfiniBand
  int traffic_class = 0;     // 0 to 255, of RoCE
  Logger* logger = nullptr;  // outlives the transport; gets a line when a lane's port has failed
};

// kInvalidArgument names the option. kUnsupported, kUnreachable: there is no such RDMA port, and falling back is not
// allowed. Thread rule of the result: transport/transport.h. Either all processes of a job use it or none.
Result<std::shared_ptr<Transport>> MakeIbTransport(std::shared_ptr<Transport> base, IbOptions options);

// The base transport's address, of an address of MakeIbTransport's; any other address unchanged.
std::string BaseOfIbAddress(const std::string& address);

// Whether MakeIbTransport would find a port by this text (IbOptions::port). Errors: those of MakeIbTransport.
Status CheckIbPort(const std::string& port);

}  // namespace rondo
