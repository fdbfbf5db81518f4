// The sending half of a control connection, for any thread. When Send returns, the kernel has as many of the bytes as
// the connection has room for. The remaining bytes wait in this process for the control thread. All bytes wait if the
// connection is not established yet. One channel serves a peer for the whole life of an endpoint, no matter which
// side's connection is kept, so no queued byte is lost.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include "base/wire.h"

namespace rondo::tcp {

inline constexpr std::size_t kMaxControlBacklogBytes = 1 << 20;

class ControlChannel {
 public:
  // `ask_flush` is called when the kernel took only a part of the bytes, on any thread and under the channel's lock.
  // The control thread must then call Flush when the connection becomes writable.
  explicit ControlChannel(std::function<void()> ask_flush) : ask_flush_(std::move(ask_flush)) {}

  // True: no bytes wait to be sent.
  bool flushed() const;

  // Never blocks. False: nothing was taken, because the connection has ended, or because kMaxControlBacklogBytes wait
  // already (the peer's process no longer reads).
  bool Send(std::string_view bytes);

  // ---- the control thread's part ----

  // Called when the connection is established: sends the queued bytes. The caller owns the descriptor, and must call
  // End before closing it.
  void Begin(int fd, Wire wire);
  // Receives like Wire::Receive. If TLS fails, `why` is set to the reason.
  ssize_t Receive(MutableBytes to, std::string& why);
  // Whether bytes for Receive are already in this process. Such bytes make no descriptor readable.
  bool HasReceived() const;
  // Sends waiting bytes. True: no bytes wait any more.
  bool Flush();
  // Shuts down writing after all queued bytes have been sent.
  void FinishWriting();
  void End();
  bool ended() const;

 private:
  void FlushLocked();
  bool IdleLocked() const { return backlog_.empty() && !wire_.unsent(); }

  const std::function<void()> ask_flush_;
  mutable std::mutex mutex_;
  int fd_ = -1;  // guarded by mutex_, like all below; -1 before Begin and after End
  Wire wire_;
  bool ended_ = false;
  bool finishing_ = false;
  std::string backlog_;  // bytes that the wire has not taken yet
};

}  // namespace rondo::tcp
