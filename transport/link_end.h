// One end of the link that carries the bytes of a connection, for messages and reports.
#pragma once

#include <string>

namespace rondo {

// This end of the link that carries the bytes of a path. A text is empty and a number is 0 if it is unknown, or if
// there is no link (shared memory).
struct LinkEnd {
  std::string device = {};   // "mlx5_0" of RDMA; otherwise the network interface, "eth0"
  int port = 0;              // of an RDMA device; 0: the link does not use RDMA
  std::string address = {};  // numeric
  std::string gid = {};      // of an RDMA port, in words: "RoCE v2 10.0.0.1 (eth0)"
  int gid_index = 0;         // in the port's table, if there is a gid
  int mtu_bytes = 0;         // of RDMA: what both ends agreed on; otherwise the interface's
  double line_gbps = 0;      // of the wire, in Gbit/s, as the device reports it
};

}  // namespace rondo
