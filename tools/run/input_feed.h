// Our stdin on its way to ranks: read here, and handed to each of them by a pipe of its own.
//
// Only as much is read as all of these ranks take soon: the slowest sets the pace, and what no rank asks for stays for
// whoever reads our stdin next, but for the little that pipes hold. While this process is in the background of its
// terminal nothing is read, for the keys are meant for another one.
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
  // A reader that has this many bytes before it gets no more for now.
  static constexpr std::size_t kMaxUnread = 256 << 10;

  InputFeed();

  // Whether a process may have our stdin itself, instead of being fed: it waits in its reads, and is no terminal, from
  // which only processes of the foreground group may read (a rank has a group of its own).
  static bool CanBeInherited();

  // What to wait for, where there is room for more.
  void AddDescriptors(std::vector<pollfd>& fds) const;
  // Reads what there is, a bounded amount, and hands it on; no bytes mean the end. Whether a line was typed.
  bool Pump(const std::function<void(std::string_view bytes)>& give);
  // No more will come.
  bool has_ended() const { return has_ended_; }

 private:
  int fd() const { return own_ ? own_.get() : 0; }
  bool MayRead() const;

  Fd own_;  // where it is a terminal or a pipe: a description of our own, whose reads do not wait
  bool is_terminal_ = false;
  bool has_ended_ = false;
};

}  // namespace rondo
