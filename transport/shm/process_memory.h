// Reading the memory of another process of this host where it lies, by process_vm_readv (man 2): one copy, made by the
// reader, of memory that nobody has prepared.
//
// Whether the kernel allows it depends on users, on its hardening (Yama's ptrace_scope), on namespaces and filters; and
// a process number means somebody else in another namespace. So it is tried, on a probe: a nonce in a process's own
// memory, which who finds it there has read from that process and no other.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/result.h"
#include "transport/shm/segment.h"

namespace rondo::shm {

struct CmaProbe {
  std::int32_t process = 0;  // 0: there is none
  std::uint32_t reserved = 0;
  std::uint64_t address = 0;
  Nonce nonce{};
};

// Of this process. `nonce` stays where it is, as it is, as long as anybody may look for it.
CmaProbe CmaProbeOf(const Nonce& nonce);
// Errors: ReadMemoryOf's. kResource also: something else lies there.
Status CheckCmaProbe(const CmaProbe& probe);

// Whether others could read what lies there, if they may read this process's memory at all: not devices' registers, nor
// memory that may only be written. Its ends are looked at, for what is between is of one kind.
bool CanBeRead(Bytes memory);

// All of `into`. kPeerLost: there is no such process. kResource: it cannot be read, and why. kInvalidArgument: `into`
// cannot be written.
Status ReadMemoryOf(std::int32_t process, std::uint64_t address, MutableBytes into);

}  // namespace rondo::shm
