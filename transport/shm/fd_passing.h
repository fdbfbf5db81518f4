// Passes descriptors between processes of one host, over an abstract Unix socket per endpoint.
//
// An abstract name belongs to the network namespace and disappears with its socket. So no file is left behind, and only
// processes of that namespace can connect. Connecting never waits: either it succeeds at once, or the listener's queue
// is full and the caller must try again.
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

// Makes a non-blocking socket that listens at an abstract name. kAddressInUse: another socket has the name.
Result<Fd> ListenAt(std::string_view name, int backlog);
// Connects to an abstract name. An empty Fd: the listener's queue is full, so try again. kUnreachable: no socket
// listens at that name.
Result<Fd> ConnectTo(std::string_view name);
// Accepts the next connection; empty: there is none.
Fd AcceptNext(int listener);
// Whether the process at the other end runs as this user or as root. The check is needed because any process can
// connect to an abstract name.
bool HasTrustedUid(int fd);

// Sends one message with descriptors, completely or not at all. kResource: the socket has no room for it.
Status SendWith(int fd, Bytes message, const std::vector<int>& descriptors);

struct Received {
  bool came = false;  // false: nothing has arrived yet
  std::vector<Fd> descriptors;
};
// Receives one message of exactly message.size() bytes, which one call of SendWith has sent. kProtocol: a message of
// another size has arrived, or the stream has ended. kResource: this process cannot take all descriptors of the
// message.
Result<Received> ReceiveWith(int fd, MutableBytes message, std::size_t most_descriptors);

}  // namespace rondo::shm
