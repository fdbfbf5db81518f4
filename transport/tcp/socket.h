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

// The system's text for an errno.
std::string SystemMessage(int error);

// kResource for EMFILE, ENFILE, ENOBUFS and ENOMEM, with need, limit and remedy if descriptors ran out; `otherwise` for
// all others. `what` says what was tried.
Error SystemError(int error, std::string_view what, ErrorCode otherwise);

// A listening, non-blocking socket: at the port of `at`, or at one of `ports` if that is 0. A wildcard IPv6 address
// listens on both families if the machine allows it. `congestion_control`: see SetCongestionControl; accepted
// connections begin with it. Errors: those of ListenOnPort.
Result<Fd> Listen(const SocketAddress& at, int backlog, bool dual_stack,
                  const std::vector<std::string>& congestion_control, PortRange ports = {});

// A non-blocking socket that is connecting. When it is writable, ConnectResult gives the outcome. kResource: no
// descriptor, or no local port, is left. `from`: the local address to use, or null. `buffer_bytes`: as SetBuffers,
// which must come before the connection's window scale is agreed. `congestion_control`: as SetCongestionControl.
Result<Fd> StartConnect(const SocketAddress& to, const IpAddress* from, int buffer_bytes,
                        const std::vector<std::string>& congestion_control);
// 0, or the errno of the attempt. A socket that has connected to itself was refused: no socket listens there.
int ConnectResult(int fd);

// Options of every connection: no delay of small writes, closed on exec.
void SetNoDelay(int fd);
// For control connections, which must not stay silent forever: unanswered keepalive probes and unacknowledged bytes end
// the connection after `silence`.
void SetSilenceLimit(int fd, Duration silence);
// Sets the first of `preferred` that this process may set. Returns the algorithm that the socket has now. Call it
// before the socket is connected: a socket that once had bbr paces its bytes for the rest of its life
// (sk_pacing_status), even after another algorithm is set, and so loses up to 40% if ranks share cores.
std::string SetCongestionControl(int fd, const std::vector<std::string>& preferred);
// The algorithm of a new socket: "bbr". Empty: no socket can be made.
std::string SystemCongestionControl();
// Sets buffer sizes; 0 leaves the kernel's tuning on.
void SetBuffers(int fd, int bytes);

// Reads and throws away all bytes that have arrived, so that the following close is no reset.
void Drain(int fd);

}  // namespace rondo::tcp
