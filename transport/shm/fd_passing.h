// How processes of one host pass each other descriptors: an abstract Unix socket per endpoint.
//
// An abstract name lives in the network namespace and ends with its socket: no file is left behind, and who can call it
// shares that namespace. Connecting needs no waiting: it succeeds at once, or somebody's queue is full and it is tried
// again.
//
// Thread rule: one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/net/fd.h"
#include "base/result.h"

namespace rondo::shm {

// Listens, without blocking, at an abstract name. kAddressInUse: somebody does already.
Result<Fd> ListenAt(std::string_view name, int backlog);
// An empty Fd: its queue is full, try again. kUnreachable: nobody listens there.
Result<Fd> ConnectTo(std::string_view name);
// The next caller; empty: nobody has called.
Fd AcceptNext(int listener);
// The process at the other end runs as this user or as root. Anybody may connect to an abstract name.
bool HasTrustedUid(int fd);

// One message with descriptors, whole or not at all. kResource when it does not fit.
Status SendWith(int fd, Bytes message, const std::vector<int>& descriptors);

struct Received {
  bool came = false;  // false: nothing yet
  std::vector<Fd> descriptors;
};
// Reads exactly message.size() bytes, sent by one SendWith. kProtocol: something else came, or the end. kResource: this
// process has no room for all the descriptors that came with it.
Result<Received> ReceiveWith(int fd, MutableBytes message, std::size_t most_descriptors);

}  // namespace rondo::shm
