// The sending half of a control connection, for any thread. When Send returns, the kernel has the bytes as far as the
// connection is established and has room. The rest waits here for the control thread. One channel serves a peer for the
// whole life of an endpoint, no matter which side's connection is kept, so no queued byte is lost.
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
  // Then the control thread must call Flush when the connection is writable.
  explicit ControlChannel(std::function<void()> ask_flush) : ask_flush_(std::move(ask_flush)) {}

  // Whether no bytes wait to be sent.
  bool flushed() const;

  // False: the connection has ended, or kMaxControlBacklogBytes wait already, because the peer's process does not read
  // any more. In both cases nothing was taken. Never blocks.
  bool Send(std::string_view bytes);

  // ---- the control thread's part ----

  // Called when the connection is established: sends the queued bytes. The caller owns the descriptor, and must call
  // End before closing it.
  void Begin(int fd, Wire wire);
  // Receives like Wire::Receive. If TLS failed, `why` is set to the reason.
  ssize_t Receive(MutableBytes to, std::string& why);
  // Whether Receive has bytes that make no descriptor readable.
  bool HasReceived() const;
  // True: no bytes wait to be sent.
  bool Flush();
  // Shuts down writing once all queued bytes are sent.
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
  std::string backlog_;  // not taken by the wire yet
};

}  // namespace rondo::tcp
