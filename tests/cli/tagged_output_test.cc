// Tests how output that several ranks write at the same time appears on the stdout and stderr of `rondo run`.
#include "tools/run/tagged_output.h"

#include <doctest/doctest.h>

#include <array>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace rondo {
namespace tagged_output_test {

// The printed output, and a clock that a test advances.
class Screen {
 public:
  explicit Screen(OutputPlaces places = {}, bool tags = true)
      : output_([this](int stream, std::string_view bytes) { texts_[stream - 1] += bytes; }, places, tags, clock_) {}

  Screen& Write(Rank rank, std::string_view bytes, int stream = 1) {
    output_.Write(rank, stream, bytes);
    return *this;
  }
  Screen& End(Rank rank, int stream = 1) { return Write(rank, {}, stream); }
  // Advances the clock by the time for which incomplete lines are held.
  Screen& Later() {
    clock_.Advance(TaggedOutput::kHoldLine);
    output_.ShowHeldLines();
    return *this;
  }
  std::string out() const { return texts_[0]; }
  std::string err() const { return texts_[1]; }
  TaggedOutput& output() { return output_; }
  const Clock& clock() const { return clock_; }

 private:
  ManualClock clock_;
  std::array<std::string, 2> texts_;
  TaggedOutput output_;
};

TEST_CASE("Whole lines come out at once, each with its rank's tag, an empty one too") {
  Screen screen;
  screen.Write(0, "a\nb\n").Write(1, "\nc\n", 2);
  CHECK(screen.out() == "[0] a\n[0] b\n");
  CHECK(screen.err() == "[1] \n[1] c\n");
  CHECK(screen.output().next() == TimePoint::max());
}

TEST_CASE("A prompt comes out without its line's end, a moment after it was written") {
  Screen screen;
  screen.Write(0, "name> ");
  CHECK(screen.out() == "");
  CHECK(screen.output().next() == screen.clock().Now() + TaggedOutput::kHoldLine);
  CHECK(screen.Later().out() == "[0] name> ");
  CHECK(screen.output().next() == TimePoint::max());
  CHECK(screen.Write(0, "hello\n").out() == "[0] name> hello\n");
}

TEST_CASE("Lines that several ranks write in pieces stay whole") {
  Screen screen;
  screen.Write(0, "one ").Write(1, "ei").Write(0, "two\nth").Write(1, "ns\n").Write(0, "ree\n");
  CHECK(screen.out() == "[0] one two\n[1] eins\n[0] three\n");
}

TEST_CASE("A begun line is ended where another rank writes, and what is left of it has a tag of its own") {
  Screen screen;
  screen.Write(0, "half").Later().Write(1, "whole\n").Write(0, " a line\n");
  CHECK(screen.out() == "[0] half\n[1] whole\n[0]  a line\n");
}

TEST_CASE("A progress bar moves, and its tag stands behind every carriage return") {
  Screen screen;
  screen.Write(0, "\r10%").Later().Write(0, "\r20%").Write(0, "\r100%\n").Write(0, "done\r\n");
  CHECK(screen.out() == "\r[0] 10%\r[0] 20%\r[0] 100%\n[0] done\r\n");
}

TEST_CASE("Bars of two ranks take each other's place on a terminal, and are lines elsewhere") {
  Screen terminal({.are_terminals = {true, true}}), pipe;
  for (Screen* screen : {&terminal, &pipe})
    screen->Write(0, "\r10%").Later().Write(1, "\r11%").Later().Write(0, "\r12%").Later();
  CHECK(terminal.out() == "\r[0] 10%\r\033[K\r[1] 11%\r\033[K\r[0] 12%");
  CHECK(pipe.out() == "\r[0] 10%\n\r[1] 11%\n\r[0] 12%");
}

TEST_CASE("A bar does not overwrite the prompt of another rank") {
  Screen screen({.are_terminals = {true, true}});
  screen.Write(0, "name> ").Later().Write(1, "\r10%").Later();
  CHECK(screen.out() == "[0] name> \n\r[1] 10%");
}

TEST_CASE("The end of a stream ends its line, whether it was shown or not") {
  Screen screen;
  screen.Write(0, "shown").Later().End(0).Write(1, "held").End(1).End(1).Write(2, "x\n");
  CHECK(screen.out() == "[0] shown\n[1] held\n[2] x\n");
}

TEST_CASE("Streams that were lost before their end are ended at last") {
  Screen screen;
  screen.Write(0, "shown").Later().Write(1, "held").output().Finish();
  CHECK(screen.out() == "[0] shown\n[1] held\n");
}

TEST_CASE("Where stdout and stderr are one place, their lines do not get into each other") {
  Screen apart, together({.are_one = true});
  for (Screen* screen : {&apart, &together}) screen->Write(0, "out").Later().Write(0, "err\n", 2).Write(0, "more\n");
  CHECK(apart.out() == "[0] outmore\n");
  CHECK(apart.err() == "[0] err\n");
  CHECK(together.out() == "[0] out\n[0] err\n[0] more\n");
}

TEST_CASE("The launcher's own lines stand alone") {
  Screen screen;
  screen.Write(0, "bar", 2).Later().output().WriteOwn("rondo run: words\n");
  CHECK(screen.err() == "[0] bar\nrondo run: words\n");
}

TEST_CASE("Behind what a user typed on the terminal a new line begins") {
  Screen screen({.are_terminals = {true, true}});
  screen.Write(0, "name> ").Later().output().OnTerminalInput();
  CHECK(screen.Write(0, "hello\n").out() == "[0] name> [0] hello\n");
}

TEST_CASE("A line longer than any buffer comes out in pieces and keeps its bytes") {
  Screen screen;
  for (int piece = 0; piece < 5; ++piece) screen.Write(0, std::string(64 << 10, 'x'));
  CHECK(screen.Write(0, "\nend\n").out() == "[0] " + std::string(5 * (64 << 10), 'x') + "\n[0] end\n");
}

TEST_CASE("Without tags bytes pass as they are") {
  Screen screen({}, /*tags=*/false);
  screen.Write(0, "a\rb").Write(1, "c").End(0);
  CHECK(screen.out() == "a\rbc");
}

}  // namespace tagged_output_test
}  // namespace rondo
