#include "transport/shm/process_memory.h"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>

namespace rondo::shm {

CmaProbe CmaProbeOf(const Nonce& nonce) {
  return {.process = getpid(), .address = reinterpret_cast<std::uintptr_t>(nonce.data()), .nonce = nonce};
}

Status CheckCmaProbe(const CmaProbe& probe) {
  if (probe.process == 0) return Fail(ErrorCode::kResource, "the peer gave no address to read");
  Nonce found{};
  RONDO_TRY(ReadMemoryOf(probe.process, probe.address, std::as_writable_bytes(std::span(found))));
  if (found != probe.nonce)
    return Fail(ErrorCode::kResource, "in this PID namespace, process id {} does not belong to the peer",
                probe.process);
  return {};
}

bool CanBeRead(Bytes memory) {
  if (memory.empty()) return true;
  std::byte ends[2];
  const iovec here{ends, sizeof ends};
  auto* const begin = const_cast<std::byte*>(memory.data());
  const iovec there[2] = {{begin, 1}, {begin + memory.size() - 1, 1}};
  return process_vm_readv(getpid(), &here, 1, there, 2, 0) == sizeof ends;
}

Status ReadMemoryOf(std::int32_t process, std::uint64_t address, MutableBytes into) {
  std::size_t done = 0;
  while (done < into.size()) {
    const iovec here{into.data() + done, into.size() - done};
    const iovec there{reinterpret_cast<void*>(address + done), into.size() - done};
    const ssize_t got = process_vm_readv(process, &here, 1, &there, 1, 0);
    if (got > 0) {
      done += static_cast<std::size_t>(got);
      continue;
    }
    const int error = got == 0 ? EFAULT : errno;
    std::byte first;
    const iovec local{&first, 1};
    if (error == EFAULT && process_vm_readv(process, &local, 1, &there, 1, 0) == 1)
      return Fail(ErrorCode::kInvalidArgument, "{} bytes of a result cannot be written to this rank's own memory",
                  into.size());
    return Fail(error == ESRCH ? ErrorCode::kPeerLost : ErrorCode::kResource,
                "{} bytes of memory of process {} cannot be read: {}", into.size(), process, std::strerror(error));
  }
  return {};
}

}  // namespace rondo::shm
