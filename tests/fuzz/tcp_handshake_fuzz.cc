// transport/tcp/handshake and handshake_sides: the first bytes that any client of a port can send, the server's
// answers, and which client and server pass authentication if there is a job token.
#include <algorithm>

#include "base/access.h"
#include "base/printable.h"
#include "tests/fuzz/harness.h"
#include "transport/tcp/handshake.h"
#include "transport/tcp/handshake_sides.h"

namespace rondo::fuzz::tcp_handshake_fuzz {
using tcp::MessageReader;

// How a reader decoded a message: how many bytes it read, whether the message is complete, and the error.
struct Verdict {
  std::size_t taken = 0;
  bool complete = false;
  std::string error;
  friend bool operator==(const Verdict&, const Verdict&) = default;
};

Verdict Feed(MessageReader& reader, const std::vector<std::string_view>& pieces) {
  Verdict verdict;
  for (std::string_view piece : pieces) {
    while (!piece.empty() && reader.wanted() != 0) {
      const std::string_view part = piece.substr(0, reader.wanted());
      piece.remove_prefix(part.size());
      verdict.taken += part.size();
      const Status fed = reader.Feed(AsBytes(part));
      if (!fed) {
        CheckError(fed);
        verdict.error = fed.error().ToString();
        verdict.taken = 0;  // how many bytes of an invalid message were read depends on how it was cut
        return verdict;
      }
      RONDO_HOLDS(reader.complete() == (reader.wanted() == 0));
    }
  }
  verdict.complete = reader.complete();
  return verdict;
}

// A decoded message is the same after it is encoded and decoded again.
template <typename Message>
void CheckAgain(const Message& message, MessageReader::Kind kind, Result<Message> (MessageReader::*decoded)() const) {
  const std::vector<std::byte> bytes = tcp::Encode(message);
  RONDO_HOLDS(bytes.size() <= tcp::kPreambleBytes + tcp::kMaxHandshakeBytes);
  MessageReader again(kind);
  const std::string text = ToText(bytes);
  RONDO_HOLDS(Feed(again, {text}).complete);
  const Result<Message> same = (again.*decoded)();
  RONDO_HOLDS(same && *same == message);
}

void CheckHello(const tcp::Hello& hello) {
  CheckAgain(hello, MessageReader::Kind::kHello, &MessageReader::hello);
  const tcp::Identity self{.job = "job", .generation = 7, .instance = "called"};
  const std::vector<std::string> instances{"called", "caller"};
  for (const tcp::Reply& reply : {JudgeHello(hello, self), JudgeRanks(hello, 0, instances)}) {
    if (reply.verdict == tcp::Verdict::kAccepted) continue;
    // The text is written to a log, on one line, and sent to the client.
    RONDO_HOLDS(!reply.text.empty() && IsPrintable(reply.text), "{}", Printable(reply.text));
    tcp::Reply sent = reply;
    sent.text = sent.text.substr(0, tcp::kMaxReplyTextBytes);
    CheckAgain(sent, MessageReader::Kind::kReply, &MessageReader::reply);
  }
}

// ---- with a token ----

// The token's nonces are always the same, so that a seed can contain the correct proof.
std::shared_ptr<const JobToken> Token() {
  static const std::shared_ptr<const JobToken> token = *JobToken::Make("secret", "the token", [](MutableBytes bytes) {
    std::fill(bytes.begin(), bytes.end(), std::byte{7});
    return true;
  });
  return token;
}

tcp::Hello SomeHello() {
  tcp::Hello hello;
  hello.from = 1;
  hello.to = 0;
  hello.job = "job";
  hello.from_instance = "caller";
  hello.to_instance = "called";
  return hello;
}

// What one side concludes from everything that it has received.
struct Parsed {
  bool believes = false;  // true: Feed has returned `belief`, the argument of Parse
  std::string error;
};

template <typename Side>
Parsed Parse(Side& side, const std::vector<std::string_view>& pieces, typename Side::Next belief) {
  Parsed parsed;
  for (std::string_view piece : pieces) {
    while (!piece.empty() && side.wanted() != 0) {
      const std::string_view part = piece.substr(0, side.wanted());
      piece.remove_prefix(part.size());
      const auto next = side.Feed(AsBytes(part));
      CheckError(next);
      if (!next) {
        parsed.error = next.error().ToString();
        return parsed;
      }
      parsed.believes = parsed.believes || *next == belief;
    }
  }
  return parsed;
}

// The messages of both sides in a successful handshake: the client's hello and proof, the server's challenge and
// acceptance.
struct Script {
  std::string client, challenge, server;
};
Script WellKnown() {
  Script script;
  auto client = tcp::ClientHandshake::Begin(SomeHello(), Token());
  tcp::ServerHandshake server(Token());
  const std::string hello = ToText(client->hello_bytes());
  RONDO_HOLDS(Parse(server, {hello}, tcp::ServerHandshake::Next::kSend).believes);
  script.challenge = ToText(server.challenge());
  RONDO_HOLDS(Parse(*client, {script.challenge}, tcp::ClientHandshake::Next::kSend).believes);
  const std::string proof = ToText(client->proof());
  RONDO_HOLDS(Parse(server, {proof}, tcp::ServerHandshake::Next::kJudge).believes);
  script.client = hello + proof;
  script.server = script.challenge + ToText(server.Encode({})) + ToText(server.Encode({tcp::Verdict::kHeld, {}, ""}));
  return script;
}

// A client that the server accepts has sent all the right bytes; the same holds for a server that the client accepts.
void CheckSides(std::string_view input) {
  static const Script script = WellKnown();
  Parsed server_first, client_first;
  for (const Cut cut : kCuts) {
    tcp::ServerHandshake server(Token());
    const Parsed by_server = Parse(server, Pieces(input, cut), tcp::ServerHandshake::Next::kJudge);
    auto client = tcp::ClientHandshake::Begin(SomeHello(), Token());
    const Parsed by_client = Parse(*client, Pieces(input, cut), tcp::ClientHandshake::Next::kReply);
    if (cut == Cut::kWhole) {
      server_first = by_server;
      client_first = by_client;
    }
    RONDO_HOLDS(by_server.error == server_first.error && by_server.believes == server_first.believes);
    RONDO_HOLDS(by_client.error == client_first.error && by_client.believes == client_first.believes);
    RONDO_HOLDS(!by_server.believes || input.starts_with(script.client), "let in without the right proof");
    RONDO_HOLDS(!by_client.believes || input.starts_with(script.challenge), "believed without a challenge");
  }
}

Corpus HarnessCorpus() {
  const Script script = WellKnown();
  tcp::Hello hello;
  hello.kind = tcp::ConnectionKind::kLane;
  hello.streams = 2;
  hello.stream = 1;
  hello.index = 3;
  hello.generation = 7;
  hello.communicator = 0x1122334455667788;
  hello.from = 1;
  hello.to = 0;
  hello.job = "job";
  hello.from_instance = "caller";
  hello.to_instance = "called";
  const tcp::Reply refusal{tcp::Verdict::kRefused, ErrorCode::kStale, "this process belongs to another job"};
  tcp::Hello foreign_client = hello;
  foreign_client.job = "other\n\x1b[31m";
  return {
      .seeds = {ToText(tcp::Encode(hello)), ToText(tcp::Encode(foreign_client)), ToText(tcp::Encode(tcp::Reply{})),
                ToText(tcp::Encode(refusal)), ToText(tcp::Encode(refusal)) + "and what follows",
                "GET / HTTP/1.1\r\nHost: 10.0.0.1:29500\r\n\r\n", std::string("\x16\x03\x01\x02\x00\x01\x00\x01", 8),
                script.client, script.server, script.server + script.server},
      .words = {"RONDOtcp", "RONDOack", "RONDOprf", std::string("\x02\x00", 2), "job", "caller", "called"}};
}

void CheckInput(std::string_view input) {
  CheckSides(input);
  for (const MessageReader::Kind kind :
       {MessageReader::Kind::kHello, MessageReader::Kind::kReply, MessageReader::Kind::kProof}) {
    const Allocations allocations;
    Verdict first;
    for (const Cut cut : kCuts) {
      MessageReader reader(kind);
      const Verdict verdict = Feed(reader, Pieces(input, cut));
      if (cut == Cut::kWhole) first = verdict;
      RONDO_HOLDS(verdict == first, "'{}' and '{}', {} and {} bytes", first.error, verdict.error, first.taken,
                  verdict.taken);
      if (!verdict.complete) continue;
      if (kind == MessageReader::Kind::kHello) {
        const auto hello = reader.hello();
        CheckError(hello);
        if (hello) CheckHello(*hello);
      } else if (kind == MessageReader::Kind::kReply) {
        const auto reply = reader.reply();
        CheckError(reply);
        if (reply) CheckAgain(*reply, kind, &MessageReader::reply);
      } else {
        const auto proof = reader.proof();
        CheckError(proof);
        if (proof) CheckAgain(*proof, kind, &MessageReader::proof);
      }
    }
    // Printing a text takes at most four characters for each byte, and vectors grow by doubling.
    allocations.CheckLargest(32 * (tcp::kPreambleBytes + tcp::kMaxHandshakeBytes) + 64 * input.size());
  }
}

}  // namespace rondo::fuzz::tcp_handshake_fuzz
