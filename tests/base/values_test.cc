// Tests bytes, time, random numbers, logging and invariant checks.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "tests/support/threads.h"

namespace rondo {
namespace values_test {

TEST_CASE("Little-endian stores put the low byte first, at any address, and loads read it back") {
  std::array<std::byte, 12> memory{};
  StoreLittle<std::uint32_t>(memory.data() + 1, 0x11223344u);
  CHECK(memory[0] == std::byte{0});
  CHECK(memory[1] == std::byte{0x44});
  CHECK(memory[2] == std::byte{0x33});
  CHECK(memory[3] == std::byte{0x22});
  CHECK(memory[4] == std::byte{0x11});
  CHECK(memory[5] == std::byte{0});
  CHECK(LoadLittle<std::uint32_t>(memory.data() + 1) == 0x11223344u);
  StoreLittle<std::uint64_t>(memory.data() + 3, 0x0102030405060708u);
  CHECK(memory[3] == std::byte{8});
  CHECK(memory[10] == std::byte{1});
  CHECK(LoadLittle<std::uint64_t>(memory.data() + 3) == 0x0102030405060708u);
  CHECK(LoadLittle<std::uint16_t>(memory.data() + 3) == 0x0708);
  CHECK(LoadLittle<std::uint8_t>(memory.data() + 10) == 1);
}

TEST_CASE("DivCeil and RoundUp round up, exactly, up to the largest number") {
  CHECK(DivCeil(0, 4) == 0);
  CHECK(DivCeil(1, 4) == 1);
  CHECK(DivCeil(4, 4) == 1);
  CHECK(DivCeil(5, 4) == 2);
  CHECK(DivCeil(~std::uint64_t{0}, 2) == std::uint64_t{1} << 63);
  CHECK(RoundUp(0, kLineBytes) == 0);
  CHECK(RoundUp(1, kLineBytes) == 64);
  CHECK(RoundUp(64, kLineBytes) == 64);
  CHECK(RoundUp(65, kLineBytes) == 128);
}

TEST_CASE("Text and bytes turn into each other, zero bytes and empty text included") {
  const std::string text("a\0b", 3);
  CHECK(AsBytes(text).size() == 3);
  CHECK(ToText(AsBytes(text)) == text);
  CHECK(ToText(Bytes{}).empty());
}

TEST_CASE("A manual clock stands still until it is moved") {
  ManualClock clock;
  const TimePoint start = clock.Now();
  CHECK(start > TimePoint{});  // a deadline that was never set must be in the past
  CHECK(clock.Now() == start);
  clock.Advance(std::chrono::milliseconds(5));
  CHECK(clock.Now() - start == std::chrono::milliseconds(5));
  clock.AdvanceTo(start + std::chrono::hours(1));
  CHECK(clock.Now() - start == std::chrono::hours(1));
}

TEST_CASE("A manual clock may be moved by any thread") {
  ManualClock clock;
  const TimePoint start = clock.Now();
  OnThreads(4, [&](int) {
    for (int k = 0; k < 1000; ++k) clock.Advance(Duration(1));
  });
  CHECK(clock.Now() - start == Duration(4000));
}

TEST_CASE("The machine's clock never runs backwards") {
  const SteadyClock clock;
  TimePoint last = clock.Now();
  for (int i = 0; i < 1000; ++i) {
    const TimePoint now = clock.Now();
    REQUIRE(now >= last);
    last = now;
  }
}

TEST_CASE("Random is SplitMix64, so a seed replays a run on every machine") {
  Random random(1234567);  // the published test vector
  CHECK(random.Next() == 6457827717110365317u);
  CHECK(random.Next() == 3203168211198807973u);
  CHECK(random.Next() == 9817491932198370423u);
  CHECK(random.Next() == 4593380528125082431u);
  CHECK(random.Next() == 16408922859458223821u);
}

TEST_CASE("Equal seeds give equal streams, and a split one goes its own way") {
  Random a(7);
  Random b(7);
  for (int i = 0; i < 100; ++i) REQUIRE(a.Next() == b.Next());
  Random split_a = a.Split();
  Random split_b = b.Split();
  CHECK(split_a.Next() == split_b.Next());
  CHECK(split_a.Next() != a.Next());
}

TEST_CASE("Bounds hold, and every value between them comes") {
  Random random(9);
  std::array<int, 5> seen{};
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t value = random.Between(3, 7);
    REQUIRE(value >= 3);
    REQUIRE(value <= 7);
    ++seen[value - 3];
    REQUIRE(random.Below(10) < 10);
    const double unit = random.Unit();
    REQUIRE(unit >= 0.0);
    REQUIRE(unit < 1.0);
  }
  for (int times : seen) CHECK(times > 100);
  CHECK(random.Below(0) == 0);
  CHECK(random.Below(1) == 0);
  CHECK(random.Between(5, 5) == 5);
  CHECK(!random.Chance(0.0));
  CHECK(random.Chance(1.0));
}

TEST_CASE("Log formats for a logger and is silent without one") {
  class Lines final : public Logger {
   public:
    void Write(LogLevel level, std::string_view text) override { lines.emplace_back(level, text); }
    std::vector<std::pair<LogLevel, std::string>> lines;
  } logger;
  Log(&logger, LogLevel::kWarning, "rank {} uses {}", 3, "eth0");
  Log(nullptr, LogLevel::kWarning, "rank {} uses {}", 3, "eth0");
  REQUIRE(logger.lines.size() == 1);
  CHECK(logger.lines[0].first == LogLevel::kWarning);
  CHECK(logger.lines[0].second == "rank 3 uses eth0");
}

// Runs `body` in a child process. Returns the child's wait status and its standard error.
template <typename Body>
std::pair<int, std::string> InChild(const Body& body) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    signal(SIGABRT, SIG_DFL);  // doctest's own handler would print a report
    body();
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  std::array<char, 256> buffer;
  for (ssize_t got; (got = read(ends[0], buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<std::size_t>(got));
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return {status, text};
}

TEST_CASE("A broken invariant ends the process with its place, condition and message, in every build") {
  const auto [status, text] = InChild([] { RONDO_CHECK(1 + 1 == 3, "chunk {} of {}", 2, 7); });
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
  CHECK(text.find("tests/base/values_test.cc:") != std::string::npos);
  CHECK(text.find("broken invariant: 1 + 1 == 3 chunk 2 of 7") != std::string::npos);
}

TEST_CASE("An invariant that holds is evaluated once and says nothing") {
  const auto [status, text] = InChild([] {
    int evaluated = 0;
    RONDO_CHECK(++evaluated == 1, "never formatted");
    RONDO_CHECK(evaluated == 1);
  });
  CHECK(status == 0);
  CHECK(text.empty());
}

}  // namespace values_test
}  // namespace rondo
