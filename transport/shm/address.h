// The contents of Transport::Address() for shared memory: the host of a process, the name under which processes of that
// host reach its endpoints, and its address of the base transport.
//
// Encoding: docs/WIRE.md, "Shared memory". Thread rule: plain values; functions are pure.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace rondo::shm {

struct ShmAddress {
  // Two processes have the same id only if they share a kernel and a network namespace. "": unknown, so no other
  // process counts as being on this host.
  std::string host_id;
  std::string instance;  // different in every process
  std::string base;      // the address of the base transport, as an opaque text
  friend bool operator==(const ShmAddress&, const ShmAddress&) = default;
};

std::string Encode(const ShmAddress& address);
// kInvalidArgument: the message says what is wrong.
Result<ShmAddress> DecodeShmAddress(std::string_view text);
bool SameHost(const ShmAddress& a, const ShmAddress& b);

}  // namespace rondo::shm
