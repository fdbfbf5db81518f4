// The contents of Transport::Address() for RDMA: the host id of a process, a description of its RDMA port (for log
// lines and errors), and its address of the base transport. The values that a connection needs are exchanged over the
// base lane (path_message.h).
//
// Encoding: docs/WIRE.md, "RDMA". Thread rule: plain values; functions are pure.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace rondo::ib {

struct IbAddress {
  std::string host_id;  // "": unknown, so it equals no other
  std::string port;     // "mlx5_0:1 RoCE v2 10.0.0.1 (eth1)"; "": this process has no port
  std::string base;     // the address of the base transport, as an opaque text
  friend bool operator==(const IbAddress&, const IbAddress&) = default;
};

std::string Encode(const IbAddress& address);
// kInvalidArgument: the message says what is wrong.
Result<IbAddress> DecodeIbAddress(std::string_view text);

}  // namespace rondo::ib
