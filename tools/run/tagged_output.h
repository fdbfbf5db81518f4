// Merges the output of all ranks into our stdout and stderr, with the tag "[rank] " in front of every line.
//
// A rank may write lines in pieces. So an unfinished line waits for its end, and the pieces stay together. But it waits
// only for kHoldLine. A prompt or a progress bar may write no line feed for a long time, and the user must see it.
// After kHoldLine the launcher writes the unfinished line, and the line belongs to that rank until another rank writes.
// If another rank writes, the launcher ends the line, and the first rank's next bytes begin a new line, with a tag.
// After a carriage return the next text begins with the tag again. On a terminal the progress bar of one rank may
// overwrite that of another.
//
// If stdout and stderr are the same terminal, pipe or file, both are treated as one stream, so that their lines do not
// mix.
//
// Thread rule: one thread.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/ids.h"

namespace rondo {

// Describes stdout and stderr of this process; in arrays stdout is first.
struct OutputPlaces {
  bool are_one = false;  // stdout and stderr are the same terminal, pipe or file
  std::array<bool, 2> are_terminals{};

  static OutputPlaces OfThisProcess();
};

class TaggedOutput {
 public:
  static constexpr Duration kHoldLine = std::chrono::milliseconds(50);

  // `write` is called with output for stdout (1) or stderr (2). If `tags` is false, the bytes of ranks are passed on
  // unchanged. The clock must outlive this object.
  TaggedOutput(std::function<void(int stream, std::string_view bytes)> write, OutputPlaces places, bool tags,
               const Clock& clock);

  // Takes bytes that a rank wrote to its stdout (1) or stderr (2). Empty `bytes` mean that the stream has ended; its
  // last line is then ended, too.
  void Write(Rank rank, int stream, std::string_view bytes);
  // Writes a whole line of the launcher itself to stderr.
  void WriteOwn(std::string_view line);
  // Must be called when the user has pressed Return on the terminal, because the terminal has then begun a new line.
  void OnTerminalInput();
  // Writes all waiting text, also of streams that have not ended, and ends open lines. REQUIRES: no call of Write
  // follows.
  void Finish();
  // The time at which ShowHeldLines must run next; TimePoint::max() if there is nothing to do.
  TimePoint next() const;
  // Writes unfinished lines that have waited for kHoldLine.
  void ShowHeldLines();

 private:
  using Source = std::pair<Rank, int>;  // a rank and its stream
  // The beginning of a line that waits for its end.
  struct Held {
    std::string bytes;
    TimePoint since;
  };
  // One of our two streams, and the state of its current line.
  struct Sink {
    int stream = 1;
    bool is_terminal = false;
    bool is_open = false;       // the line has begun but has not ended
    Source owner = {0, 0};      // the source of the open line
    bool tag_is_due = true;     // a tag must be written before the next character that does not end a line
    bool is_tagged = false;     // the line has a tag already
    bool has_returned = false;  // the line contains a carriage return, so it is a progress bar
  };

  Sink& SinkOf(int stream) { return sinks_[stream == 2 && !one_sink_ ? 1 : 0]; }
  bool Owns(const Sink& sink, const Source& source) const { return sink.is_open && sink.owner == source; }
  void Emit(const Source& source, std::string_view bytes);
  static void BeginLine(Sink& sink) {
    sink.is_open = sink.is_tagged = sink.has_returned = false, sink.tag_is_due = true;
  }

  const std::function<void(int stream, std::string_view bytes)> write_;
  const bool tags_;
  const bool one_sink_;
  const Clock& clock_;
  std::array<Sink, 2> sinks_;
  std::map<Source, Held> held_;
};

}  // namespace rondo
