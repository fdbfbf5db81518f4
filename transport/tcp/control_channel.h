// The sending half of a control connection, usable from any thread: what is sent is in the kernel when Send returns, as
// far as the connection has room and stands; the rest waits here for the control thread. One channel serves a peer for
// the whole life of an endpoint, whichever side's connection wins, so nothing that was queued is lost.
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
  // `ask_flush` is called (any thread, under the channel's lock) when the kernel took only a part: somebody must call
  // Flush when the connection is writable.
  explicit ControlChannel(std::function<void()> ask_flush) : ask_flush_(std::move(ask_flush)) {}

  // Nothing waits to be sent any more.
  bool flushed() const;

  // False: the connection has ended, or kMaxControlBacklogBytes wait already (the peer's process does not read any
  // more; nothing was taken). Never blocks.
  bool Send(std::string_view bytes);

  // ---- the control thread's part ----

  // The connection stands: sends what was queued. The descriptor stays the caller's, who calls End before closing it.
  void Begin(int fd, Wire wire);
  // What has arrived, as Wire::Receive; where TLS failed, `why` says so.
  ssize_t Receive(MutableBytes to, std::string& why);
  // Whether Receive has something that makes no descriptor readable.
  bool HasReceived() const;
  // True when nothing is left.
  bool Flush();
  // Shuts down writing once everything queued is out.
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
