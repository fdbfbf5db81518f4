// What Transport::Address() carries for RDMA: the host of a process, its port for people to read, and its address of
// the base transport. All that a connection needs goes over the base lane (path_message.h).
//
// Encoding: docs/WIRE.md, "RDMA". Thread rule: values; functions are pure.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace rondo::ib {

struct IbAddress {
  std::string host_id;  // "": unknown, and equal to none
  std::string port;     // "mlx5_0:1 RoCE v2 10.0.0.1 (eth1)"; "": this process has none
  std::string base;     // of the base transport, opaque
  friend bool operator==(const IbAddress&, const IbAddress&) = default;
};

std::string Encode(const IbAddress& address);
// kInvalidArgument says what is wrong.
Result<IbAddress> DecodeIbAddress(std::string_view text);

}  // namespace rondo::ib
