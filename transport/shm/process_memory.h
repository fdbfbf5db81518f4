// CMA: reads the memory of another process of this host by process_vm_readv (man 2). The reader makes one copy. The
// owner need not prepare its memory.
//
// Whether the kernel allows this depends on the users of both processes, on Yama's ptrace_scope, on namespaces, and on
// filters. Also, in another pid namespace a process number identifies another process. So each rank first reads a probe
// of each other process: a nonce in that process's own memory. If the rank finds the nonce, it has read from the right
// process.
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

// Makes a probe of this process. `nonce` must neither move nor change while other ranks may check the probe.
CmaProbe CmaProbeOf(const Nonce& nonce);
// Reads the nonce of a probe. Errors: those of ReadMemoryOf, and kResource if the nonce was not found.
Status CheckCmaProbe(const CmaProbe& probe);

// Whether other processes could read `memory`, if they are allowed to read this process's memory at all. They cannot
// read registers of devices or write-only memory. Only the first and the last byte are tried, because all bytes between
// them are of the same kind.
bool CanBeRead(Bytes memory);

// Fills all of `into` from the memory of that process at `address`. kPeerLost: there is no such process. kResource: the
// memory cannot be read; the message says why. kInvalidArgument: `into` cannot be written.
Status ReadMemoryOf(std::int32_t process, std::uint64_t address, MutableBytes into);

}  // namespace rondo::shm
