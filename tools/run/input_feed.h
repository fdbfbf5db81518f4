// Forwards the stdin of the launcher to ranks. The launcher reads it and writes it to one pipe per rank.
//
// It stops reading while any of these ranks has kMaxUnread bytes unread, so the slowest rank sets the pace. Bytes that
// the launcher has not read stay in its stdin for the next program that reads it. If the launcher is a background
// process of its terminal, it reads nothing, because the input is meant for another program.
//
// Thread rule: one thread.
#pragma once

#include <poll.h>

#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

#include "base/net/fd.h"

namespace rondo {

class InputFeed {
 public:
  // While a rank has this many bytes unread, no more input is read.
  static constexpr std::size_t kMaxUnread = 256 << 10;

  InputFeed();

  // Whether a rank may inherit our stdin instead of being fed. This requires that reads from our stdin block,
  // and that our stdin is not a terminal. A terminal cannot be inherited, because only processes of the foreground
  // group may read it, and each rank has a group of its own.
  static bool CanBeInherited();

  // Adds the descriptor that poll must wait for, if this process may read it. REQUIRES: no fed rank has kMaxUnread
  // bytes unread.
  void AddDescriptors(std::vector<pollfd>& fds) const;
  // Reads the available bytes, at most 64 KiB, and passes them to `give`; an empty text means the end of stdin. Returns
  // whether the user typed a whole line at a terminal.
  bool Pump(const std::function<void(std::string_view bytes)>& give);
  // Whether the end of stdin was read.
  bool has_ended() const { return has_ended_; }

 private:
  int fd() const { return own_ ? own_.get() : 0; }
  bool MayRead() const;

  Fd own_;  // stdin opened again with O_NONBLOCK, if it is a terminal or a pipe
  bool is_terminal_ = false;
  bool has_ended_ = false;
};

}  // namespace rondo
