// What the ranks of a job say, on its way to our stdout and stderr.
//
// Nobody waits in a write: who reads us may stand still (a pager, a terminal after Ctrl-S, a log collector that hangs),
// and a signal that says to end the job must be heard all the same. What there is no room for stays here; who brings
// more waits while that is much, so that ranks wait in their own writes at last.
//
// Thread rule: one thread.
#pragma once

#include <poll.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/net/fd.h"

namespace rondo {

class OutputQueue {
 public:
  OutputQueue();
  // `stream`: STDOUT_FILENO or STDERR_FILENO. Takes all of it, and writes what there is room for. What is brought in
  // spite of IsFull is dropped at last.
  void Write(int stream, std::string_view bytes);
  // Writes on, as far as there is room.
  void Flush();
  bool IsEmpty() const;
  // So much waits here that nobody should bring more.
  bool IsFull() const;
  // What to wait for, to flush.
  void AddDescriptors(std::vector<pollfd>& fds) const;
  // Why one of them cannot be written any more, whose bytes are then dropped: an errno (EPIPE: nobody reads any more);
  // 0: both can.
  int failure() const { return failure_; }
  // Which of them that is, in words.
  std::string_view failed_stream() const { return failed_stream_; }

 private:
  struct Stream {
    int number = 0;
    Fd terminal = {};  // where it is one: a description of our own, whose writes do not wait
    std::string unsent = {};
    bool is_broken = false;
    int fd() const { return terminal ? terminal.get() : number; }
  };
  void Flush(Stream& stream);

  std::array<Stream, 2> streams_;
  int failure_ = 0;
  std::string_view failed_stream_;
};

}  // namespace rondo
