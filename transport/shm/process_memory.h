// CMA: reads the memory of another process of this host by process_vm_readv (man 2). The reader makes one copy; the
// owner need not prepare its memory.
//
// Whether the kernel allows it depends on users, on its hardening (Yama's ptrace_scope), on namespaces and filters; and
// in another namespace a process number means another process. So each rank first reads a probe of each other process:
// a nonce in that process's own memory. If the rank finds the nonce, it has read from the right process.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/result.h"
#include "transport/shm/segment.h"

namespace rondo::shm {

struct CmaProbe {
  std::int32_t process = 0;  // 0: there is no probe
  std::uint32_t reserved = 0;
  std::uint64_t address = 0;
  Nonce nonce{};
};

// Makes a probe of this process. `nonce` must neither move nor change as long as other ranks may check the probe.
CmaProbe CmaProbeOf(const Nonce& nonce);
// Reads the nonce of a probe. Errors: those of ReadMemoryOf. kResource also: the nonce was not found.
Status CheckCmaProbe(const CmaProbe& probe);

// Whether other processes could read `memory`, if they may read this process's memory at all. They cannot read
// registers of devices or write-only memory. Only the first and the last byte are tried, because all bytes between are
// of one kind.
bool CanBeRead(Bytes memory);

// Fills all of `into`. kPeerLost: there is no such process. kResource: the memory cannot be read; the message says why.
// kInvalidArgument: `into` cannot be written.
Status ReadMemoryOf(std::int32_t process, std::uint64_t address, MutableBytes into);

}  // namespace rondo::shm
