// The system calls around sockets, with owned descriptors and typed errors.
#pragma once

#include <cerrno>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/net/descriptors.h"
#include "base/net/fd.h"
#include "base/net/ip.h"
#include "base/net/ports.h"
#include "base/result.h"

namespace rondo::tcp {

// What errno says, in words.
std::string SystemMessage(int error);

// kResource for EMFILE, ENFILE, ENOBUFS and ENOMEM, with need, limit and remedy where descriptors ran out; else
// `otherwise`. `what` says what was tried.
Error SystemError(int error, std::string_view what, ErrorCode otherwise);

// A listening, non-blocking socket: at the port of `at`, or, where that is 0, at one of `ports`. A wildcard IPv6
// address listens on both families where the machine allows it. `congestion_control`: as for SetCongestionControl;
// accepted connections begin with it. Errors: those of ListenOnPort.
Result<Fd> Listen(const SocketAddress& at, int backlog, bool dual_stack,
                  const std::vector<std::string>& congestion_control, PortRange ports = {});

// A non-blocking socket that is connecting; readiness for writing and then ConnectResult tell how it went. kResource:
// no descriptor, or no local port, is left. `from`: the local address to use, or null. `buffer_bytes`: as SetBuffers,
// which must come before the connection's window scale is agreed. `congestion_control`: as SetCongestionControl.
Result<Fd> StartConnect(const SocketAddress& to, const IpAddress* from, int buffer_bytes,
                        const std::vector<std::string>& congestion_control);
// 0, or the errno of the attempt. A socket that has connected to itself was refused: no socket listens there.
int ConnectResult(int fd);

// Options of every connection: no delay of small writes, closed on exec.
void SetNoDelay(int fd);
// Options of control connections, where silence must end: keepalive probes, and unacknowledged bytes, give up after
// `silence`.
void SetSilenceLimit(int fd, Duration silence);
// The first of `preferred` that this process may set. Says in words which algorithm the socket has now. Before a socket
// is connected: one that has been bbr's paces what it sends for the rest of its life (sk_pacing_status), whatever it is
// given later, and so loses up to 40% where ranks share cores.
std::string SetCongestionControl(int fd, const std::vector<std::string>& preferred);
// What a socket gets that nobody has set it for: "bbr". Empty where no socket can be made.
std::string SystemCongestionControl();
// Explicit buffer sizes; 0 leaves the kernel's tuning on.
void SetBuffers(int fd, int bytes);

// Reads and throws away what has arrived, so that the following close is no reset.
void Drain(int fd);

}  // namespace rondo::tcp
