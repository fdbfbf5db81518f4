// System calls for sockets. They return owned descriptors and typed errors.
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

// Makes an error with the code kResource for EMFILE, ENFILE, ENOBUFS and ENOMEM, and `otherwise` for all others. If
// descriptors ran out, the message says how many are needed, what the limit is, and how to raise it. `what` says what
// was tried.
Error SystemError(int error, std::string_view what, ErrorCode otherwise);

// Makes a listening, non-blocking socket at the port of `at`, or at one of `ports` if that port is 0. A wildcard IPv6
// address listens on both families if the machine allows it. `congestion_control`: see SetCongestionControl; accepted
// connections begin with it. Errors: those of ListenOnPort.
Result<Fd> Listen(const SocketAddress& at, int backlog, bool dual_stack,
                  const std::vector<std::string>& congestion_control, PortRange ports = {});

// Makes a non-blocking socket and starts to connect it. When the socket is writable, ConnectResult returns the outcome.
// kResource: no descriptor, or no local port, is left. `from`: the local address to use, or null. `buffer_bytes`: see
// SetBuffers; they must be set before the connection agrees on the scale of TCP's window. `congestion_control`: see
// SetCongestionControl.
Result<Fd> StartConnect(const SocketAddress& to, const IpAddress* from, int buffer_bytes,
                        const std::vector<std::string>& congestion_control);
// Returns 0, or the errno of the attempt. A socket that has connected to itself counts as refused, because no other
// socket listens at that address.
int ConnectResult(int fd);

// Sets the options of every connection: small writes are sent without delay, and exec closes the socket.
void SetNoDelay(int fd);
// For control connections, which must not stay silent forever. The connection ends if, for the time `silence`,
// keepalive probes are not answered or bytes are not acknowledged.
void SetSilenceLimit(int fd, Duration silence);
// Sets the first algorithm of `preferred` that this process is allowed to set. Returns the algorithm that the socket
// has now. Call it before the socket is connected, because a socket that once had bbr always paces its bytes
// (sk_pacing_status), even after another algorithm is set. Pacing makes transfers up to 40% slower if ranks share
// cores.
std::string SetCongestionControl(int fd, const std::vector<std::string>& preferred);
// The congestion control algorithm of a new socket, such as "bbr". Empty: no socket can be made.
std::string SystemCongestionControl();
// Sets both buffer sizes of a socket. 0 leaves the kernel's tuning on.
void SetBuffers(int fd, int bytes);

// Reads and discards all bytes that have arrived, so that the following close does not become a reset.
void Drain(int fd);

}  // namespace rondo::tcp
