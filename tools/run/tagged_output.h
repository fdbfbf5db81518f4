// Puts what ranks write together into our stdout and stderr, with the tag "[rank] " in front of every line.
//
// Output is bytes, not lines: a prompt or a progress bar has no line feed for long, and a reader wants to see it now. A
// line that a rank has begun waits for its end for kHoldLine only, so that lines written in pieces stay whole. After
// that it is passed on as it is, and the line belongs to that rank until another rank writes: then it is ended, and the
// first rank's next bytes begin a line of their own, with a tag. A carriage return leads back to the begin of the line,
// where the next text begins with the tag again; on a terminal a bar of one rank may overwrite that of another.
//
// Where stdout and stderr are the same terminal, pipe or file, lines of both are kept apart as lines of one.
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

// What there is to know of our stdout and stderr, in this order.
struct OutputPlaces {
  bool are_one = false;  // what is written to the one gets among what is written to the other
  std::array<bool, 2> are_terminals{};

  static OutputPlaces OfThisProcess();
};

class TaggedOutput {
 public:
  static constexpr Duration kHoldLine = std::chrono::milliseconds(50);

  // `write` gets what goes to stdout (1) or stderr (2). `tags`: false passes the bytes of ranks on as they are. The
  // clock outlives it.
  TaggedOutput(std::function<void(int stream, std::string_view bytes)> write, OutputPlaces places, bool tags,
               const Clock& clock);

  // What a rank wrote to its stdout (1) or stderr (2). No bytes: that stream has ended, and so does its last line.
  void Write(Rank rank, int stream, std::string_view bytes);
  // A whole line of the launcher itself, on stderr.
  void WriteOwn(std::string_view line);
  // Somebody pressed the return key on the terminal that ranks write to: it shows that, and a new line begins.
  void OnTerminalInput();
  // No rank writes any more, though some streams were lost before their end.
  void Finish();
  // When ShowHeldLines has something to do; the end of time: never.
  TimePoint next() const;
  // Passes on the begun lines whose time is over.
  void ShowHeldLines();

 private:
  using Source = std::pair<Rank, int>;  // a rank and its stream
  // A line that has begun, as long as it waits for its end.
  struct Held {
    std::string bytes;
    TimePoint since;
  };
  // One of our two streams, and what its current line holds.
  struct Sink {
    int stream = 1;
    bool is_terminal = false;
    bool is_open = false;       // the line has begun and not ended
    Source owner = {0, 0};      // of the open line
    bool tag_is_due = true;     // before the next character that is not an end
    bool is_tagged = false;     // the line has a tag already
    bool has_returned = false;  // the line was overwritten: it is a progress bar
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
