// Tests the effect of each toxic on a stream, in virtual time and without a socket. The tests put bytes in and check
// the content, order and time of the output.
#include "transport/fault/flow.h"

#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace rondo::fault {
namespace flow_test {

using namespace std::chrono_literals;
using Kind = Flow::Step::Kind;

// A flow, its clock, and a receiver that takes all bytes at once.
struct Pipe {
  explicit Pipe(std::uint64_t seed = 1, std::size_t buffer_bytes = 1000)
      : flow({.listener = "here", .way = Way::kToServer, .connection = 3, .seed = seed}, buffer_bytes) {}

  std::shared_ptr<Toxicity> Add(Scope scope, Toxic toxic) {
    REQUIRE(Check(scope, toxic));
    auto toxicity = std::make_shared<Toxicity>(std::move(scope), toxic, ++toxics);
    flow.Add(toxicity);
    return toxicity;
  }
  void Say(std::string_view text) { flow.Arrive(AsBytes(text), clock.Now()); }
  void SayEnd(Flow::End end = Flow::End::kFin) { flow.ArriveEnd(end, clock.Now()); }

  // Takes the bytes that may be sent now, and records each piece. Returns the first step that is not kSend.
  Flow::Step Take() {
    while (true) {
      const Flow::Step step = flow.Next(clock.Now());
      if (step.kind != Kind::kSend) return step;
      pieces.push_back(ToText(step.bytes));
      received += pieces.back();
      flow.Sent(step.bytes.size(), clock.Now());
    }
  }
  // Advances the clock whenever the flow waits, and returns the total time.
  Duration TakeAll() {
    const TimePoint before = clock.Now();
    for (last = Take(); last.kind == Kind::kWait; last = Take()) clock.AdvanceTo(last.until);
    return clock.Now() - before;
  }

  ManualClock clock;
  Flow flow;
  std::uint64_t toxics = 0;
  std::vector<std::string> pieces;
  std::string received;
  Flow::Step last;
};

TEST_CASE("without toxics bytes and the end pass at once and unchanged") {
  Pipe pipe;
  pipe.Say("hello, ");
  pipe.Say("world");
  CHECK(pipe.Take().kind == Kind::kNothing);
  CHECK(pipe.received == "hello, world");
  pipe.SayEnd();
  CHECK(pipe.Take().kind == Kind::kEnd);
  CHECK(pipe.Take().kind == Kind::kOver);
}

TEST_CASE("a reset passes as a reset, behind the bytes that came before it") {
  Pipe pipe;
  pipe.Say("last bytes");
  pipe.SayEnd(Flow::End::kReset);
  CHECK(pipe.Take().kind == Kind::kReset);
  CHECK(pipe.received == "last bytes");
  CHECK(pipe.Take().kind == Kind::kOver);
}

TEST_CASE("the buffer is bounded, and what has been handed on makes room") {
  Pipe pipe(1, 10);
  pipe.Say("0123456");
  CHECK(pipe.flow.room() == 3);
  pipe.Take();
  CHECK(pipe.flow.room() == 10);
}

TEST_CASE("a toxic of another listener, connection, way or stream changes nothing") {
  const std::vector<Scope> elsewhere{
      {.listener = "there"}, {.connection = 2}, {.way = Way::kToClient}, {.stream = "lane(0->1)"}};
  for (const Scope& scope : elsewhere) {
    CAPTURE(ToString(scope, ResetPeer{}));
    Pipe pipe;
    pipe.flow.Name("lane(1->0)", 0);
    const auto toxic = pipe.Add(scope, ResetPeer{});
    pipe.Say("untouched");
    CHECK(pipe.Take().kind == Kind::kNothing);
    CHECK(pipe.received == "untouched");
    CHECK(toxic->fired.count() == 0);
  }
  const std::vector<Scope> here{
      {}, {.listener = "here"}, {.connection = 3}, {.way = Way::kToServer}, {.stream = "lane(1->0)"}};
  for (const Scope& scope : here) {
    CAPTURE(ToString(scope, ResetPeer{}));
    Pipe pipe;
    pipe.flow.Name("lane(1->0)", 0);
    const auto toxic = pipe.Add(scope, ResetPeer{});
    CHECK(pipe.Take().kind == Kind::kReset);
    CHECK(toxic->fired.count() == 1);
  }
}

TEST_CASE("bytes of a named stream are counted from where it begins") {
  Pipe pipe;
  const auto cut = pipe.Add({.stream = "lane(0->1)", .from_byte = 3}, LimitData{});
  pipe.Say("handshake");
  CHECK(pipe.Take().kind == Kind::kNothing);
  pipe.flow.Name("lane(0->1)", 9);
  pipe.Say("abcdef");
  CHECK(pipe.Take().kind == Kind::kEnd);
  CHECK(pipe.received == "handshakeabc");
  CHECK(cut->fired.count() == 1);
}

TEST_CASE("latency delays every byte by as much, and the end too") {
  Pipe pipe;
  const auto late = pipe.Add({}, Latency{.delay = 10ms});
  pipe.Say("a");
  pipe.clock.Advance(4ms);
  pipe.Say("b");
  pipe.SayEnd();
  CHECK(pipe.Take().until == pipe.clock.Now() + 6ms);
  CHECK(pipe.received.empty());
  pipe.clock.Advance(6ms);
  CHECK(pipe.Take().until == pipe.clock.Now() + 4ms);
  CHECK(pipe.received == "a");
  CHECK(pipe.TakeAll() == 4ms);
  CHECK(pipe.received == "ab");
  CHECK(pipe.last.kind == Kind::kEnd);
  CHECK(late->fired.count() == 3);
}

TEST_CASE("jitter comes from the seed, stays within its bound, and never lets bytes overtake each other") {
  const auto delays = [](std::uint64_t seed) {
    Pipe pipe(seed);
    pipe.Add({}, Latency{.delay = 1ms, .jitter = 5ms});
    std::vector<Duration> all;
    for (int i = 0; i < 50; ++i) {
      pipe.Say(std::string(1, static_cast<char>('a' + i % 26)));
      all.push_back(pipe.TakeAll());
      CHECK(all.back() >= 1ms);
      CHECK(all.back() < 6ms);
    }
    return all;
  };
  const auto some = delays(1);
  CHECK(some == delays(1));
  CHECK(some != delays(2));
  CHECK(std::set(some.begin(), some.end()).size() > 40);

  Pipe pipe;
  pipe.Add({}, Latency{.delay = 1ms, .jitter = 5ms});
  for (char letter = 'a'; letter <= 'z'; ++letter) pipe.Say(std::string(1, letter));
  pipe.TakeAll();
  CHECK(pipe.received == "abcdefghijklmnopqrstuvwxyz");
}

TEST_CASE("latency on a range of bytes delays these; those behind wait for them, since order is kept") {
  Pipe pipe;
  pipe.Add({.from_byte = 2, .to_byte = 4}, Latency{.delay = 10ms});
  pipe.Say("abcdef");
  CHECK(pipe.Take().kind == Kind::kWait);
  CHECK(pipe.received == "ab");
  CHECK(pipe.TakeAll() == 10ms);
  CHECK(pipe.received == "abcdef");
}

TEST_CASE("a bandwidth is never exceeded and almost reached") {
  Pipe pipe(1, 100'000);
  const auto slow = pipe.Add({}, Bandwidth{.bytes_per_second = 100'000});
  pipe.Say(std::string(50'000, 'x'));
  pipe.SayEnd();
  const Duration took = pipe.TakeAll();
  CHECK(took >= 495ms);  // the last piece was forwarded at this time, because no pause follows it
  CHECK(took <= 500ms);
  CHECK(pipe.received.size() == 50'000);
  CHECK(slow->fired.count() >= 50);
}

TEST_CASE("a bandwidth of less than a piece still moves single bytes") {
  Pipe pipe;
  pipe.Add({}, Bandwidth{.bytes_per_second = 10});
  pipe.Say("abc");
  CHECK(pipe.TakeAll() == 200ms);
  CHECK(pipe.pieces == std::vector<std::string>{"a", "b", "c"});
}

TEST_CASE("slow_close delays the end alone") {
  Pipe pipe;
  const auto slow = pipe.Add({}, SlowClose{.delay = 20ms});
  pipe.Say("bytes");
  CHECK(pipe.Take().kind == Kind::kNothing);
  CHECK(pipe.received == "bytes");
  CHECK(slow->fired.count() == 0);
  pipe.SayEnd();
  CHECK(pipe.TakeAll() == 20ms);
  CHECK(pipe.last.kind == Kind::kEnd);
  CHECK(slow->fired.count() == 1);
}

TEST_CASE("slow_close does not delay a reset, which is no orderly end") {
  Pipe pipe;
  const auto slow = pipe.Add({}, SlowClose{.delay = 20ms});
  pipe.SayEnd(Flow::End::kReset);
  CHECK(pipe.Take().kind == Kind::kReset);
  CHECK(slow->fired.count() == 0);
}

TEST_CASE(
    "a timeout swallows everything behind its byte, is counted when there was something, and heals without loss") {
  Pipe pipe;
  const auto hole = pipe.Add({.from_byte = 3}, Timeout{});
  CHECK(pipe.Take().kind == Kind::kNothing);
  CHECK(hole->fired.count() == 0);
  pipe.Say("abcdef");
  pipe.SayEnd();
  CHECK(pipe.Take().kind == Kind::kNothing);
  CHECK(pipe.received == "abc");
  CHECK(pipe.flow.withholds());
  pipe.Take();
  CHECK(hole->fired.count() == 1);
  pipe.flow.Remove(*hole);
  CHECK(pipe.Take().kind == Kind::kEnd);
  CHECK(pipe.received == "abcdef");
}

TEST_CASE("a timeout may end the stream after a while, without what it held") {
  Pipe pipe;
  pipe.Add({}, Timeout{.close_after = 30ms});
  pipe.Say("lost");
  CHECK(pipe.TakeAll() == 30ms);
  CHECK(pipe.last.kind == Kind::kEnd);
  CHECK(pipe.received.empty());
}

TEST_CASE("reset_peer and limit_data end a stream after exactly so many bytes, however they came") {
  for (const std::size_t after : {0, 1, 4, 5}) {
    for (const bool by_reset : {true, false}) {
      CAPTURE(after);
      CAPTURE(by_reset);
      Pipe pipe;
      const auto toxic = pipe.Add({.from_byte = after}, by_reset ? Toxic(ResetPeer{}) : Toxic(LimitData{}));
      for (const char* part : {"ab", "cde"}) {
        pipe.Say(part);
        pipe.TakeAll();
        if (pipe.last.kind == Kind::kOver) continue;
        CHECK(pipe.last.kind == (pipe.received.size() < after ? Kind::kNothing : by_reset ? Kind::kReset : Kind::kEnd));
      }
      CHECK(pipe.received == std::string("abcde").substr(0, after));
      CHECK(toxic->fired.count() == 1);
      CHECK(pipe.flow.room() == 1000);  // bytes that still arrive are discarded
      pipe.Say("more");
      CHECK(pipe.Take().kind == Kind::kOver);
    }
  }
}

TEST_CASE("a toxic added when its byte has passed works from now on") {
  Pipe pipe;
  pipe.Say("abc");
  pipe.Take();
  pipe.Add({.from_byte = 1}, ResetPeer{});
  CHECK(pipe.Take().kind == Kind::kReset);
}

TEST_CASE("a slicer cuts, and may pause between slices") {
  Pipe pipe;
  const auto slicer = pipe.Add({}, Slicer{.slice_bytes = 2});
  pipe.Say("abcde");
  CHECK(pipe.TakeAll() == 0ms);
  CHECK(pipe.pieces == std::vector<std::string>{"ab", "cd", "e"});
  CHECK(slicer->fired.count() == 2);

  Pipe slow;
  slow.Add({}, Slicer{.slice_bytes = 1, .pause = 1ms});
  slow.Say("abc");
  CHECK(slow.TakeAll() == 2ms);
  CHECK(slow.pieces == std::vector<std::string>{"a", "b", "c"});
}

TEST_CASE("corrupt turns over one bit of one byte, wherever the stream was cut") {
  for (std::size_t byte = 0; byte < 6; ++byte) {
    for (std::size_t split = 0; split <= 6; ++split) {
      CAPTURE(byte);
      CAPTURE(split);
      Pipe pipe;
      const auto corrupt = pipe.Add({.from_byte = byte}, Corrupt{.bit = 1});
      const std::string text = "abcdef";
      pipe.Say(text.substr(0, split));
      pipe.Take();
      pipe.Say(text.substr(split));
      pipe.Take();
      std::string expected = text;
      expected[byte] ^= 2;
      CHECK(pipe.received == expected);
      CHECK(corrupt->fired.count() == 1);
    }
  }
}

TEST_CASE("a bit that is not given comes from the seed") {
  const auto corrupted = [](std::uint64_t seed) {
    Pipe pipe(seed);
    pipe.Add({}, Corrupt{});
    pipe.Say(std::string(1, '\0'));
    pipe.Take();
    return static_cast<unsigned char>(pipe.received[0]);
  };
  std::set<unsigned char> seen;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    CHECK(corrupted(seed) == corrupted(seed));
    seen.insert(corrupted(seed));
  }
  CHECK(seen.size() == 8);  // each of the 8 bits is flipped by some seed, and every seed flips one bit
  for (const unsigned char value : seen) CHECK((value & (value - 1)) == 0);
}

TEST_CASE("while a flow is held nothing passes, and everything does afterwards") {
  Pipe pipe;
  pipe.flow.Hold(true);
  pipe.Say("patience");
  CHECK(pipe.Take().kind == Kind::kNothing);
  CHECK(pipe.flow.withholds());
  pipe.flow.Hold(false);
  pipe.Take();
  CHECK(pipe.received == "patience");
}

TEST_CASE("toxics work together") {
  Pipe pipe;
  pipe.Add({}, Latency{.delay = 5ms});
  pipe.Add({}, Slicer{.slice_bytes = 1});
  pipe.Add({.from_byte = 1}, Corrupt{.bit = 0});
  pipe.Add({.from_byte = 3}, LimitData{});
  pipe.Say("aaaaa");
  CHECK(pipe.TakeAll() == 5ms);
  CHECK(pipe.pieces == std::vector<std::string>{"a", "`", "a"});
  CHECK(pipe.last.kind == Kind::kEnd);
}

TEST_CASE("what makes no sense is refused by name") {
  const auto why = [](const Scope& scope, Toxic toxic) {
    const Status status = Check(scope, toxic);
    REQUIRE(!status);
    CHECK(status.error().code() == ErrorCode::kInvalidArgument);
    return status.error().message();
  };
  CHECK(why({}, Bandwidth{}).find("bytes_per_second") != std::string::npos);
  CHECK(why({}, Slicer{.slice_bytes = 0}).find("slice_bytes") != std::string::npos);
  CHECK(why({}, Corrupt{.bit = 8}).find("bit 8") != std::string::npos);
  CHECK(why({}, Latency{.delay = -1ms}).find("delay is negative (-1 ms)") != std::string::npos);
  CHECK(why({.from_byte = 5, .to_byte = 5}, ResetPeer{}).find("bytes 5..5") != std::string::npos);
}

TEST_CASE("a toxic says in words what it does and where") {
  CHECK(ToString({}, ResetPeer{}) == "reset_peer on every stream");
  CHECK(ToString({.listener = "rank 1",
                  .stream = "lane(0->1)",
                  .way = Way::kToClient,
                  .connection = 2,
                  .from_byte = 10,
                  .to_byte = 20},
                 Slicer{.slice_bytes = 1}) ==
        "slicer slice_bytes=1 on lane(0->1) of rank 1, connection 2, to the client, bytes 10..20");
  CHECK(ToString({.from_byte = 7}, Latency{.delay = 5ms, .jitter = 2ms}) ==
        "latency delay_ms=5 jitter_ms=2 on every stream, from byte 7");
}

}  // namespace flow_test
}  // namespace rondo::fault
