// Tests the messages between `rondo run` and its agents. They go through pipes that split them at arbitrary positions.
// tests/launchers/ssh tests both programs together.
#include "tools/run/agent_words.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <csignal>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_codec.h"

namespace rondo {
namespace agent_words_test {

// One end of a connection between launcher and agent; the test has the other end.
struct Talk {
  Talk() : Talk(*MakePipe(), *MakePipe()) {}
  Talk(Pipe in, Pipe out)
      : write_end(std::move(in.write)),
        read_end(std::move(out.read)),
        stream(std::move(in.read), std::move(out.write)) {}
  void Say(std::string_view bytes) {
    REQUIRE(write(write_end.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    stream.Receive();
  }
  // Nullopt: no complete message has arrived.
  std::optional<AgentWord> Next() {
    const auto word = stream.Next();
    REQUIRE(word);
    return *word;
  }
  Fd write_end;
  Fd read_end;
  AgentStream stream;
};

const AgentWord kWord{AgentWordKind::kStart, {"7", "", "A", std::string("\0\n\xff", 3)}};

TEST_CASE("A word arrives whole, wherever it was cut, and with all its bytes") {
  const std::string bytes = Encode(kWord);
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    CAPTURE(cut);
    Talk talk;
    talk.Say(bytes.substr(0, cut));
    if (cut < bytes.size()) CHECK(!talk.Next());
    talk.Say(bytes.substr(cut) + bytes);
    CHECK(talk.Next() == kWord);
    CHECK(talk.Next() == kWord);
    CHECK(!talk.Next());
  }
}

TEST_CASE("What a login shell prints before the agent's first word is passed over") {
  Talk talk;
  talk.Say("Welcome!\nrondo-agent-");
  CHECK(talk.stream.TakeMagic() == false);
  talk.Say("1\n" + Encode(kWord));
  CHECK(talk.stream.TakeMagic() == true);
  CHECK(talk.Next() == kWord);
}

TEST_CASE("A program that goes on talking is no agent") {
  Talk talk;
  const std::string line(4096, 'x');
  for (std::size_t said = 0; said <= kMaxBeforeMagic; said += line.size()) talk.Say(line);
  REQUIRE(!talk.stream.TakeMagic());
  CHECK(talk.stream.TakeMagic().error().code() == ErrorCode::kProtocol);
}

TEST_CASE("Bytes that are no word are refused, not waited for") {
  for (const std::string& wrong : {
           ByteWriter().Number(std::uint32_t{0}).Take(),
           ByteWriter().Number(std::uint32_t{kMaxWordBytes + 1}).Take(),
           ByteWriter().Text("?").Take(),
           ByteWriter().Text(ByteWriter().Raw("s").Number(std::uint32_t{5}).Raw("1234").bytes()).Take(),
           ByteWriter().Text(ByteWriter().Raw("s").Raw("123").bytes()).Take(),
       }) {
    std::string_view unread = wrong;
    const auto word = TakeWord(unread);
    REQUIRE(!word);
    CHECK(word.error().code() == ErrorCode::kProtocol);
  }
}

TEST_CASE("Numbers are whole and in their range, and variables have values") {
  CHECK(kWord.Number(0, 0, 7) == 7);
  CHECK(!kWord.Number(0, 0, 6));
  CHECK(!kWord.Number(1, 0, 7));
  CHECK(!kWord.Number(4, 0, 7));
  CHECK(kWord.VariablesFrom(2) == Variables{{"A", std::string("\0\n\xff", 3)}});
  CHECK(kWord.VariablesFrom(4) == Variables{});
  CHECK(!kWord.VariablesFrom(1));
}

TEST_CASE("What cannot be written yet is kept, and dropped when no reader is left") {
  Talk talk;
  const AgentWord large{AgentWordKind::kOutput, {"0", "1", std::string(1 << 20, 'x')}};
  talk.stream.Send(large);
  CHECK(talk.stream.queued() > 0);
  std::string received;
  std::vector<char> buffer(1 << 16);
  while (received.size() < Encode(large).size()) {
    const ssize_t got = ::read(talk.read_end.get(), buffer.data(), buffer.size());
    REQUIRE(got > 0);
    received.append(buffer.data(), static_cast<std::size_t>(got));
    talk.stream.Flush();
  }
  CHECK(received == Encode(large));
  CHECK(talk.stream.queued() == 0);
  talk.stream.Send(large);
  talk.read_end.Close();
  ::signal(SIGPIPE, SIG_IGN);
  talk.stream.Flush();
  CHECK(talk.stream.deaf());
  CHECK(talk.stream.queued() == 0);
}

TEST_CASE("The end is seen behind the last word") {
  Talk talk;
  talk.Say(Encode(kWord));
  talk.write_end.Close();
  talk.stream.Receive();
  CHECK(talk.stream.over());
  CHECK(talk.Next() == kWord);
}

}  // namespace agent_words_test
}  // namespace rondo
