#include "transport/tcp/left_behind_sender.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "base/bytes.h"

namespace rondo::tcp {

void LeftBehindSender::Send(asio::io_context& io, Fd fd, Wire wire, std::string_view frame, Duration limit) {
  const auto sender = std::make_shared<LeftBehindSender>(io);
  asio::error_code error;
  sender->socket_.assign(fd.get(), error);
  if (error) return;  // the peer sees a closed connection, and reports the loss
  const int socket = fd.Release();
  // A fresh connection has room for far more than a control frame.
  if (!wire.SendAll(socket, AsBytes(frame))) return sender->End();
  wire.Flush(socket);
  shutdown(socket, SHUT_WR);
  sender->limit_.expires_after(limit);
  sender->limit_.async_wait([sender](const asio::error_code& failed) {
    if (!failed) sender->End();
  });
  sender->AwaitEnd();
}

void LeftBehindSender::AwaitEnd() {
  socket_.async_wait(
      asio::posix::stream_descriptor::wait_read, [self = shared_from_this()](const asio::error_code& failed) {
        if (failed) return;
        std::array<std::byte, 4096> waste;
        const ssize_t got = recv(self->socket_.native_handle(), waste.data(), waste.size(), MSG_DONTWAIT);
        const bool goes_on = got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
        goes_on ? self->AwaitEnd() : self->End();
      });
}

void LeftBehindSender::End() {
  limit_.cancel();
  asio::error_code ignored;
  socket_.close(ignored);
}

}  // namespace rondo::tcp
