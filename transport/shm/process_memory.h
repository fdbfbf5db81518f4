// CMA: reads the memory of another process of this host by process_vm_readv (man 2). The reader makes one copy, of
// memory that need not be prepared.
//
// Whether the kernel allows it depends on users, on its hardening (Yama's ptrace_scope), on namespaces and filters; and
// in another namespace a process number means another process. So each rank tries it on a probe: a nonce in a process's
// own memory. A rank that finds the nonce there has read from that process and no other.
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

// A probe of this process. `nonce` must neither move nor change as long as other ranks may look for it.
CmaProbe CmaProbeOf(const Nonce& nonce);
// Errors: ReadMemoryOf's. kResource also: the nonce is not there.
Status CheckCmaProbe(const CmaProbe& probe);

// Whether other processes could read `memory`, if they may read this process's memory at all. They cannot read
// registers of devices, nor memory that may only be written. Both ends are tried, since all between is of one kind.
bool CanBeRead(Bytes memory);

// Fills all of `into`. kPeerLost: there is no such process. kResource: the memory cannot be read, and why.
// kInvalidArgument: `into` cannot be written.
Status ReadMemoryOf(std::int32_t process, std::uint64_t address, MutableBytes into);

}  // namespace rondo::shm
