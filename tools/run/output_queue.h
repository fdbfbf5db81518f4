// Holds the output of a job's ranks until our stdout and stderr accept it.
//
// No write blocks. The reader of our output may have stopped reading (a pager, a terminal after Ctrl-S, a log collector
// that hangs). Even then the launcher must react to signals that end the job. Bytes that cannot be written yet wait
// here. If too many wait, the launcher stops reading output from ranks, so that the ranks block in their own writes.
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
  // `stream`: STDOUT_FILENO or STDERR_FILENO. Accepts all bytes, and writes as many of them as possible without
  // blocking. A caller that ignores IsFull loses bytes: if 64 MiB wait for a stream, further bytes for it are dropped.
  void Write(int stream, std::string_view bytes);
  // Writes as many of the waiting bytes as possible without blocking.
  void Flush();
  bool IsEmpty() const;
  // Whether so many bytes wait that the caller should not add more for now.
  bool IsFull() const;
  // Adds the descriptors that poll must wait for before the next Flush.
  void AddDescriptors(std::vector<pollfd>& fds) const;
  // The errno of the failure if stdout or stderr cannot be written any more (EPIPE: its reader has closed it); 0 if
  // both can be written. Bytes for the failed stream are dropped.
  int failure() const { return failure_; }
  // The name of the stream that cannot be written: "stdout" or "stderr".
  std::string_view failed_stream() const { return failed_stream_; }

 private:
  struct Stream {
    int number = 0;
    Fd terminal = {};  // if the stream is a terminal: the terminal, opened again with O_NONBLOCK
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
