// How processes of one host pass each other descriptors: an abstract Unix socket per endpoint.
//
// An abstract name belongs to the network namespace and ends with its socket: no file is left behind, and a process
// that can connect shares that namespace. Connecting never waits: it succeeds at once, or the listener's queue is full
// and it must be tried again.
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

// Listens, without blocking, at an abstract name. kAddressInUse: another socket has the name.
Result<Fd> ListenAt(std::string_view name, int backlog);
// An empty Fd: the listener's queue is full, try again. kUnreachable: no socket listens there.
Result<Fd> ConnectTo(std::string_view name);
// The next connection; empty: there is none.
Fd AcceptNext(int listener);
// Whether the process at the other end runs as this user or as root. Any process may connect to an abstract name.
bool HasTrustedUid(int fd);

// Sends one message with descriptors, whole or not at all. kResource: it does not fit.
Status SendWith(int fd, Bytes message, const std::vector<int>& descriptors);

struct Received {
  bool came = false;  // false: nothing yet
  std::vector<Fd> descriptors;
};
// Reads exactly message.size() bytes, sent by one SendWith. kProtocol: another message came, or the end. kResource:
// this process cannot take all the descriptors that came with it.
Result<Received> ReceiveWith(int fd, MutableBytes message, std::size_t most_descriptors);

}  // namespace rondo::shm
