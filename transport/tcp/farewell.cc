#include "transport/tcp/farewell.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "base/bytes.h"

namespace rondo::tcp {

void Farewell::Send(asio::io_context& io, Fd fd, Wire wire, std::string_view frame, Duration limit) {
  const auto farewell = std::make_shared<Farewell>(io);
  asio::error_code error;
  farewell->socket_.assign(fd.get(), error);
  if (error) return;  // the peer finds the connection closed, and reports the loss
  const int socket = fd.Release();
  // A fresh connection has room for far more than a control frame.
  if (!wire.SendAll(socket, AsBytes(frame))) return farewell->End();
  wire.Flush(socket);
  shutdown(socket, SHUT_WR);
  farewell->limit_.expires_after(limit);
  farewell->limit_.async_wait([farewell](const asio::error_code& failed) {
    if (!failed) farewell->End();
  });
  farewell->AwaitEnd();
}

void Farewell::AwaitEnd() {
  socket_.async_wait(
      asio::posix::stream_descriptor::wait_read, [self = shared_from_this()](const asio::error_code& failed) {
        if (failed) return;
        std::array<std::byte, 4096> waste;
        const ssize_t got = recv(self->socket_.native_handle(), waste.data(), waste.size(), MSG_DONTWAIT);
        const bool goes_on = got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
        goes_on ? self->AwaitEnd() : self->End();
      });
}

void Farewell::End() {
  limit_.cancel();
  asio::error_code ignored;
  socket_.close(ignored);
}

}  // namespace rondo::tcp
