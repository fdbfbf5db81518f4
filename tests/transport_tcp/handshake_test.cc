// Tests the bytes of the handshake and of control connections, without a socket.
#include "transport/tcp/handshake.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"
#include "transport/tcp/control_frame.h"

namespace rondo::tcp {
namespace handshake_test {

Hello SomeHello() {
  Hello hello;
  hello.kind = ConnectionKind::kLane;
  hello.streams = 2;
  hello.stream = 1;
  hello.index = 3;
  hello.rail = 1;
  hello.communicator = 0x1122334455667788;
  hello.generation = 7;
  hello.from = 5;
  hello.to = 2;
  hello.job = "job";
  hello.from_instance = "caller";
  hello.to_instance = "called";
  return hello;
}

Status FeedAll(MessageReader& reader, Bytes bytes, std::size_t step) {
  while (!bytes.empty() && reader.wanted() != 0) {
    const std::size_t part = std::min({step, reader.wanted(), bytes.size()});
    RONDO_TRY(reader.Feed(bytes.first(part)));
    bytes = bytes.subspan(part);
  }
  return {};
}

TEST_CASE("a hello survives the wire, however finely it is cut") {
  const auto bytes = Encode(SomeHello());
  for (std::size_t step = 1; step <= bytes.size(); ++step) {
    MessageReader reader(MessageReader::Kind::kHello);
    REQUIRE(FeedAll(reader, bytes, step));
    REQUIRE(reader.complete());
    const auto hello = reader.hello();
    REQUIRE_MESSAGE(hello, hello.error().ToString());
    CHECK(*hello == SomeHello());
  }
}

// These bytes are the example in docs/WIRE.md. A change of them requires a new version number.
TEST_CASE("a hello has exactly the bytes that the format says") {
  Hello hello;
  hello.kind = ConnectionKind::kLane;
  hello.from = 1;
  hello.to = 0;
  hello.communicator = 1;
  hello.job = "j";
  hello.from_instance = "b";
  hello.to_instance = "a";
  std::string hex;
  for (const std::byte byte : Encode(hello)) hex += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  CHECK(hex ==
        "524f4e444f746370"
        "0200"
        "2a00"
        "020100000000000000000000"
        "0100000000000000"
        "0100000000000000"
        "0000000000000000"
        "016a"
        "0162"
        "0161");
}

TEST_CASE("a reply survives the wire, and its text is bounded") {
  for (const Verdict verdict : {Verdict::kAccepted, Verdict::kHeld, Verdict::kTryAgain, Verdict::kRefused}) {
    const Reply reply{verdict, ErrorCode::kStale, std::string(verdict == Verdict::kRefused ? 5000 : 10, 'x')};
    MessageReader reader(MessageReader::Kind::kReply);
    REQUIRE(FeedAll(reader, Encode(reply), 1));
    const auto read = reader.reply();
    REQUIRE(read);
    CHECK(read->verdict == verdict);
    CHECK(read->code == ErrorCode::kStale);
    CHECK(read->text == reply.text.substr(0, 512));
  }
}

TEST_CASE("a hello with a nonce, a request for a proof, a proof and a proved reply survive the wire") {
  Hello hello = SomeHello();
  hello.nonce = Nonce{std::byte{1}, std::byte{2}};
  MessageReader hellos(MessageReader::Kind::kHello);
  REQUIRE(FeedAll(hellos, Encode(hello), 1));
  CHECK(*hellos.hello() == hello);

  const Reply request{.verdict = Verdict::kProve, .nonce = Nonce{std::byte{3}}};
  const Reply proved{
      .verdict = Verdict::kTryAgain, .code = ErrorCode::kNotReady, .text = "x", .proof = TokenProof{std::byte{4}}};
  for (const Reply& reply : {request, proved}) {
    MessageReader replies(MessageReader::Kind::kReply);
    REQUIRE(FeedAll(replies, Encode(reply), 1));
    CHECK(*replies.reply() == reply);
  }

  MessageReader proofs(MessageReader::Kind::kProof);
  REQUIRE(FeedAll(proofs, Encode(TokenProof{std::byte{5}}), 1));
  CHECK(*proofs.proof() == TokenProof{std::byte{5}});
}

TEST_CASE("a nonce or proof that is cut short, or that has more behind it, is refused") {
  Hello hello = SomeHello();
  hello.nonce = Nonce{};
  const std::vector<std::pair<MessageReader::Kind, std::vector<std::byte>>> messages{
      {MessageReader::Kind::kHello, Encode(hello)},
      {MessageReader::Kind::kReply, Encode(Reply{.verdict = Verdict::kProve, .nonce = Nonce{}})},
      {MessageReader::Kind::kReply, Encode(Reply{.proof = TokenProof{}})},
      {MessageReader::Kind::kProof, Encode(TokenProof{})}};
  for (const auto& message : messages) {
    const MessageReader::Kind kind = message.first;
    for (const int more : {-15, -1, 1, 16}) {
      CAPTURE(static_cast<int>(kind));
      CAPTURE(more);
      auto bytes = message.second;
      bytes.resize(bytes.size() + static_cast<std::size_t>(more));
      StoreLittle(bytes.data() + 10, static_cast<std::uint16_t>(bytes.size() - kPreambleBytes));
      MessageReader reader(kind);
      REQUIRE(FeedAll(reader, bytes, 9));
      const ErrorCode code = kind == MessageReader::Kind::kHello   ? reader.hello().error().code()
                             : kind == MessageReader::Kind::kReply ? reader.reply().error().code()
                                                                   : reader.proof().error().code();
      CHECK(code == ErrorCode::kProtocol);
    }
  }
}

TEST_CASE("a reply whose text is longer than the format allows is refused") {
  auto bytes = Encode(Reply{Verdict::kRefused, ErrorCode::kStale, std::string(512, 'x')});
  const auto read = [&] {
    MessageReader reader(MessageReader::Kind::kReply);
    REQUIRE(FeedAll(reader, bytes, 100));
    return reader.reply();
  };
  CHECK(read());
  bytes.push_back(std::byte{'x'});
  StoreLittle(bytes.data() + 10, static_cast<std::uint16_t>(bytes.size() - kPreambleBytes));
  StoreLittle(bytes.data() + kPreambleBytes + 2, std::uint16_t{513});
  REQUIRE_FALSE(read());
  CHECK(read().error().code() == ErrorCode::kProtocol);
}

TEST_CASE("a reader never asks for a byte beyond its message") {
  const auto bytes = Encode(SomeHello());
  MessageReader reader(MessageReader::Kind::kHello);
  CHECK(reader.wanted() == kPreambleBytes);
  REQUIRE(reader.Feed(Bytes(bytes).first(kPreambleBytes)));
  CHECK(reader.wanted() == bytes.size() - kPreambleBytes);
  REQUIRE(reader.Feed(Bytes(bytes).subspan(kPreambleBytes)));
  CHECK(reader.wanted() == 0);
}

TEST_CASE("another protocol is recognised at its first wrong byte") {
  for (const std::string foreign_client : {"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02\x00\x01",
                                           "SSH-2.0-OpenSSH_9.2\r\n", "RONDOack", "RONDOtcq", "\xff\xff\xff\xff"}) {
    MessageReader reader(MessageReader::Kind::kHello);
    const Status fed = FeedAll(reader, AsBytes(foreign_client), 1);
    CAPTURE(foreign_client);
    REQUIRE_FALSE(fed);
    CHECK(fed.error().code() == ErrorCode::kProtocol);
  }
}

TEST_CASE("another version is reported with both numbers, whatever follows its preamble") {
  auto bytes = Encode(SomeHello());
  StoreLittle(bytes.data() + 8, std::uint16_t{42});
  MessageReader reader(MessageReader::Kind::kHello);
  const Status fed = FeedAll(reader, bytes, 1);
  REQUIRE_FALSE(fed);
  CHECK(fed.error().code() == ErrorCode::kVersionMismatch);
  CHECK(fed.error().message().find("version 42") != std::string::npos);
  CHECK(fed.error().message().find("version 2") != std::string::npos);
}

TEST_CASE("a huge length is refused before anything is kept for it") {
  auto bytes = Encode(SomeHello());
  StoreLittle(bytes.data() + 10, std::uint16_t{0xffff});
  MessageReader reader(MessageReader::Kind::kHello);
  const Status fed = reader.Feed(Bytes(bytes).first(kPreambleBytes));
  REQUIRE_FALSE(fed);
  CHECK(fed.error().code() == ErrorCode::kProtocol);
}

TEST_CASE("a hello that is too short or too long for its fields is refused") {
  const auto good = Encode(SomeHello());
  for (const std::size_t length : {good.size() - 1, good.size() + 1, good.size() - 20}) {
    auto bytes = good;
    bytes.resize(length);
    StoreLittle(bytes.data() + 10, static_cast<std::uint16_t>(bytes.size() - kPreambleBytes));
    MessageReader reader(MessageReader::Kind::kHello);
    REQUIRE(FeedAll(reader, bytes, 7));
    const auto hello = reader.hello();
    REQUIRE_FALSE(hello);
    CHECK(hello.error().code() == ErrorCode::kProtocol);
  }
}

TEST_CASE("any damage to a hello gives an error or a well-formed hello") {
  const auto good = Encode(SomeHello());
  const std::uint64_t seed = 77;
  CAPTURE(seed);
  Random random(seed);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    auto bytes = good;
    for (std::uint64_t i = random.Between(1, 6); i > 0; --i) {
      bytes[random.Below(bytes.size())] = static_cast<std::byte>(random.Next());
    }
    MessageReader reader(MessageReader::Kind::kHello);
    if (!FeedAll(reader, bytes, random.Between(1, 64)) || !reader.complete()) {
      ++refused;
      continue;
    }
    const auto hello = reader.hello();
    refused += hello ? 0 : 1;
    if (hello) CHECK(hello->stream < hello->streams);
  }
  CHECK(refused > 1000);
}

TEST_CASE("clients of another job, generation or process are refused, with the reason in words") {
  const Identity self{"job", 7, "called"};
  CHECK(JudgeHello(SomeHello(), self).verdict == Verdict::kAccepted);
  const auto refusal = [&](auto change) {
    Hello hello = SomeHello();
    change(hello);
    const Reply reply = JudgeHello(hello, self);
    CHECK(reply.verdict == Verdict::kRefused);
    CHECK(reply.code == ErrorCode::kStale);
    return reply.text;
  };
  CHECK(refusal([](Hello& h) { h.job = "other"; }) ==
        "this process belongs to job 'job', but the client belongs to job 'other'");
  CHECK(refusal([](Hello& h) { h.job = "x'\n\x1b[2J"; }) ==
        "this process belongs to job 'job', but the client belongs to job 'x'\\x0a\\x1b[2J'");  // printed on one line
  CHECK(refusal([](Hello& h) { h.generation = 6; }) ==
        "this process is of generation 7, but the client is of generation 6");
  CHECK(refusal([](Hello& h) { h.generation = 8; }) ==
        "this process is of generation 7, but the client is of generation 8");
  CHECK(refusal([](Hello& h) { h.to_instance = "before"; }) ==
        "the client expects an earlier process, which used to have this address");
}

TEST_CASE("clients whose ranks do not fit are refused") {
  const std::vector<std::string> instances{"a", "b", "called", "d", "e", "caller"};
  CHECK(JudgeRanks(SomeHello(), 2, instances).verdict == Verdict::kAccepted);
  const auto code = [&](auto change, Rank self = 2) {
    Hello hello = SomeHello();
    change(hello);
    const Reply reply = JudgeRanks(hello, self, instances);
    CHECK(reply.verdict == Verdict::kRefused);
    return reply.code;
  };
  CHECK(code([](Hello& h) { h.to = 3; }) == ErrorCode::kMismatch);
  CHECK(code([](Hello& h) { h.from = 6; }) == ErrorCode::kMismatch);
  CHECK(code([](Hello& h) { h.from = -1; }) == ErrorCode::kMismatch);
  CHECK(code([](Hello& h) { h.from = 2; }) == ErrorCode::kMismatch);
  CHECK(code([](Hello& h) { h.from_instance = "restarted"; }) == ErrorCode::kStale);
}

// ---- control frames ----

TEST_CASE("control messages survive any cutting of the stream") {
  const std::string stream = EncodeControl({ControlKind::kHeartbeat, "one"}) + EncodeLaneRequest(9) +
                             EncodeControl({ControlKind::kAbort, std::string(kMaxControlBodyBytes, 'a')}) +
                             EncodeControl({ControlKind::kGoodbye, ""});
  for (std::size_t step : {1u, 2u, 3u, 7u, 8u, 9u, 100u, 10000u}) {
    ControlReader reader;
    std::vector<ControlFrame> frames;
    for (std::size_t at = 0; at < stream.size(); at += step) {
      REQUIRE(reader.Feed(AsBytes(std::string_view(stream).substr(at, step)), frames));
    }
    REQUIRE(frames.size() == 4);
    CHECK(frames[0].message.kind == ControlKind::kHeartbeat);
    CHECK(frames[0].message.body == "one");
    CHECK(frames[1].lane_request == 9);
    CHECK(frames[2].message.kind == ControlKind::kAbort);
    CHECK(frames[2].message.body.size() == kMaxControlBodyBytes);
    CHECK(frames[3].message.kind == ControlKind::kGoodbye);
  }
}

TEST_CASE("an unknown kind and a wrong length end a control connection") {
  const auto error_of = [](const std::string& stream) {
    ControlReader reader;
    std::vector<ControlFrame> frames;
    const Status fed = reader.Feed(AsBytes(stream), frames);
    CHECK(frames.empty());
    return fed ? ErrorCode::kInternal : fed.error().code();
  };
  std::string unknown = EncodeControl({ControlKind::kHeartbeat, ""});
  unknown[0] = 99;
  CHECK(error_of(unknown) == ErrorCode::kProtocol);
  std::string huge = EncodeControl({ControlKind::kHeartbeat, ""});
  huge[7] = '\x7f';
  CHECK(error_of(huge) == ErrorCode::kProtocol);
}

TEST_CASE("a control message of which any bit has flipped is never taken for another one") {
  const std::string sent = EncodeControl({ControlKind::kGoodbye, "the last operation"}) + EncodeLaneRequest(3);
  int corrupt = 0;
  for (std::size_t bit = 0; bit < 8 * sent.size(); ++bit) {
    CAPTURE(bit);
    std::string damaged = sent;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    ControlReader reader;
    std::vector<ControlFrame> frames;
    const Status fed = reader.Feed(AsBytes(damaged), frames);
    // Either the damage is reported, or the message seems to be longer and incomplete. The bytes of the next message
    // must not complete it.
    const bool in_second = bit / 8 >= sent.size() - kControlHeaderBytes - 4;
    CHECK(frames.size() == (in_second ? 1 : 0));
    if (!fed) corrupt += fed.error().code() == ErrorCode::kCorrupt;
    const std::string more = EncodeControl({ControlKind::kHeartbeat, std::string(kMaxControlBodyBytes, 'x')});
    if (fed) CHECK_FALSE((reader.Feed(AsBytes(more), frames) && reader.Feed(AsBytes(more), frames)));
  }
  CHECK(corrupt > 0);
}

}  // namespace handshake_test
}  // namespace rondo::tcp
