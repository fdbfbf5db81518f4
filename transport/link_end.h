// One end of the link that carries the bytes of a connection. Used in messages and reports.
#pragma once

#include <string>

namespace rondo {

// This end of the link that carries the bytes of a path. A text is empty and a number is 0 if the value is unknown, or
// if there is no link (shared memory).
struct LinkEnd {
  std::string device = {};   // the RDMA device ("mlx5_0") or the network interface ("eth0")
  int port = 0;              // the port of the RDMA device; 0: the link does not use RDMA
  std::string address = {};  // the numeric IP address
  std::string gid = {};      // the GID of the RDMA port, as text: "RoCE v2 10.0.0.1 (eth0)"
  int gid_index = 0;         // the index of the GID in the port's table, if there is a GID
  int mtu_bytes = 0;         // with RDMA, the MTU that both ends agreed on; otherwise the interface's MTU
  double line_gbps = 0;      // the speed of the wire in Gbit/s, as the device reports it
};

}  // namespace rondo
