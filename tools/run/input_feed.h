// Forwards the stdin of the launcher to ranks. The launcher reads it and writes it to a pipe of each rank.
//
// The launcher reads no more than what all of these ranks will soon take: the slowest rank sets the pace. Except for
// the little that is in pipes, bytes that no rank reads stay there for the next program that reads this stdin. If the
// launcher is a background process of its terminal, it reads nothing, because the input is meant for another program.
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
  // A rank that has not read this many bytes gets no more for now.
  static constexpr std::size_t kMaxUnread = 256 << 10;

  InputFeed();

  // Whether a rank may inherit our stdin instead of being fed. It may if reads from this stdin block, and if it is not
  // a terminal: only processes of the foreground group may read a terminal, and each rank has a group of its own.
  static bool CanBeInherited();

  // Adds the descriptor that poll must wait for, if we may read. REQUIRES: ranks have room for more.
  void AddDescriptors(std::vector<pollfd>& fds) const;
  // Reads the bytes that are there, at most 64 KiB, and passes them to `give`; an empty text means the end. Returns
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
