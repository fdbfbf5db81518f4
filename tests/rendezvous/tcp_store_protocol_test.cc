// Tests the TCP store's protocol without sockets: layout, limits, and how the server handles arbitrary bytes.
#include "rendezvous/tcp_store_protocol.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "rendezvous/tcp_store_service.h"

namespace rondo::store_protocol {
namespace tcp_store_protocol_test {

using Keys = std::vector<std::string>;
using Fate = TcpStoreService::Fate;

const std::string kHello = Encode(Hello{});
const std::string kWelcome = Encode(HelloReply{});

// A service with one client, for short tests.
class Conversation {
 public:
  explicit Conversation(TcpStoreService::Options options = {}) : service(std::move(options)), id(service.Connect()) {}

  TcpStoreService::Verdict Say(std::string_view bytes) { return service.Receive(id, AsBytes(bytes)); }
  TcpStoreService::Verdict SayByteByByte(std::string_view bytes) {
    TcpStoreService::Verdict verdict;
    for (std::size_t i = 0; i < bytes.size() && verdict.fate == Fate::kKeep; ++i) verdict = Say(bytes.substr(i, 1));
    return verdict;
  }
  // Takes all answers that the service has written.
  std::string TakeBytes() { return TakeBytes(id); }
  std::string TakeBytes(TcpStoreService::ClientId who) {
    std::string all;
    Outgoing& output = service.output(who);
    while (!output.empty()) {
      Bytes piece;
      REQUIRE(output.Front(std::span(&piece, 1)) == 1);
      all += ToText(piece);
      output.Consume(piece.size());
    }
    return all;
  }
  Reply NextReply() {
    const std::string bytes = TakeBytes();
    const auto frame = FirstFrame(bytes);
    REQUIRE(frame);
    REQUIRE(frame->has_value());
    REQUIRE(bytes.size() == kLengthBytes + (*frame)->size());
    return *DecodeReply(**frame);
  }

  TcpStoreService service;
  TcpStoreService::ClientId id;
};

std::string Frame(std::string_view content) {
  std::string bytes(4, '\0');
  StoreLittle(reinterpret_cast<std::byte*>(bytes.data()), static_cast<std::uint32_t>(content.size()));
  return bytes + std::string(content);
}

std::string Hex(std::string_view bytes) {
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

TEST_CASE("The example of docs/WIRE.md") {
  CHECK(Hex(Encode(Hello{.job = "j1"})) == "524f4e444f004b5602000000020000006a31");
  CHECK(Hex(kWelcome) ==
        "524f4e444f004b560200"
        "00"
        "00"
        "0000");
  CHECK(Hex(EncodeAdd(7, "n", -1)) ==
        "16000000"
        "0700000000000000"
        "04"
        "010000006e"
        "ffffffffffffffff");
  Outgoing out;
  AppendNumber(7, 41, out);
  Bytes piece;
  REQUIRE(out.Front(std::span(&piece, 1)) == 1);
  CHECK(Hex(ToText(piece)) ==
        "11000000"
        "0700000000000000"
        "00"
        "2900000000000000");
}

TEST_CASE("A hello is answered, fed whole or byte by byte") {
  Conversation whole;
  CHECK(whole.Say(kHello).fate == Fate::kKeep);
  CHECK(whole.TakeBytes() == kWelcome);
  Conversation slow;
  CHECK(slow.SayByteByByte(kHello).fate == Fate::kKeep);
  CHECK(slow.TakeBytes() == kWelcome);
  CHECK(slow.service.clients_after_hello() == 1);
}

TEST_CASE(
    "A nonce has 16 bytes or there is none; what another version has in its place is let pass, so that the client gets "
    "that error") {
  for (const std::size_t bytes : {1u, 15u, 17u, 1024u}) {
    std::string hello = Encode(Hello{.nonce = std::string(bytes, 'n')});
    CHECK_FALSE(TakeHello(hello));
    hello = Encode(Hello{.version = 1, .nonce = std::string(bytes, 'n')});
    CHECK(TakeHello(hello));
    CHECK(hello.empty());
  }
  std::string hello = Encode(Hello{.version = 1});
  hello[14] = 1;
  hello[15] = 4;  // a nonce of 1025 bytes
  CHECK_FALSE(TakeHello(hello));
}

TEST_CASE("A challenge and a proved reply survive the wire, and nothing else may look like them") {
  Nonce nonce{};
  nonce.fill(std::byte{1});
  TokenProof proof{};
  proof.fill(std::byte{2});
  std::string challenge = Encode(HelloReply{.challenge = nonce});
  std::string refusal = Encode(HelloReply{.refused = Error(ErrorCode::kResource, "full"), .proof = proof}) + "and more";
  const std::string good = challenge;
  const auto taken = TakeHelloReply(challenge);
  REQUIRE((taken && *taken));
  CHECK((*taken)->challenge == nonce);
  CHECK_FALSE((*taken)->proof.has_value());
  const auto refused = TakeHelloReply(refusal);
  REQUIRE((refused && *refused));
  CHECK((*refused)->proof == proof);
  CHECK((*refused)->refused->message() == "full");
  CHECK(refusal == "and more");
  // Malformed in three ways: kind 3, a challenge with a code, a nonce of 15 bytes.
  for (const auto& [at, value] : {std::pair<std::size_t, char>{11, 3}, {10, 1}, {12, 15}}) {
    std::string wrong = good;
    wrong[at] = value;
    CHECK_FALSE(TakeHelloReply(wrong));
  }
}

TEST_CASE("Every request survives one byte at a time, and all of them in one piece") {
  const std::vector<KeyValue> entries{{"a", "1"}, {"b", ""}};
  const Keys keys{"a", "b", "none"};
  const std::string requests = EncodeSet(1, entries) + EncodeGet(2, keys) + EncodeAdd(3, "a", 4) +
                               EncodeCompareSet(4, "b", "", "x") + EncodeWait(5, keys, "cancel") + EncodeAbandon(5) +
                               EncodeDelete(6, keys);
  Conversation slow;
  CHECK(slow.SayByteByByte(kHello + requests).fate == Fate::kKeep);
  Conversation whole;
  CHECK(whole.Say(kHello + requests).fate == Fate::kKeep);
  const std::string answers = slow.TakeBytes();
  CHECK(answers == whole.TakeBytes());

  std::string_view rest = std::string_view(answers).substr(kWelcome.size());
  const auto next = [&] {
    const auto frame = FirstFrame(rest);
    REQUIRE(frame);
    REQUIRE(frame->has_value());
    rest.remove_prefix(kLengthBytes + (*frame)->size());
    return *DecodeReply(**frame);
  };
  CHECK(next().id == 1);
  const auto values = DecodeValues(next().payload);
  CHECK((*values)[0] == "1");
  CHECK((*values)[1] == "");
  CHECK((*values)[2] == std::nullopt);
  CHECK(DecodeNumber(next().payload) == 5);
  CHECK(DecodeCompareSet(next().payload)->swapped);
  const Reply abandoned = next();
  CHECK(abandoned.id == 5);
  CHECK(abandoned.error == ErrorCode::kStoreTimeout);
  CHECK(abandoned.payload.find("'none'") != std::string::npos);
  CHECK(DecodeNumber(next().payload) == 2);
  CHECK(rest.empty());
}

TEST_CASE("Foreign clients are dropped at the first byte that cannot be ours, and receive nothing") {
  for (const std::string_view words : {std::string_view("GET / HTTP/1.1\r\n\r\n"),
                                       std::string_view("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11),
                                       std::string_view("SSH-2.0-OpenSSH_9.2\r\n"), std::string_view("\0\0\0\0", 4),
                                       std::string_view("RONDO is nice")}) {
    Conversation conversation;
    CHECK(conversation.Say(words).fate == Fate::kDrop);
    CHECK(conversation.TakeBytes().empty());
  }
  Conversation one_byte;
  CHECK(one_byte.Say("G").fate == Fate::kDrop);
}

TEST_CASE("A hello with lengths beyond their limits is dropped before they are believed") {
  std::string hello = kHello;
  hello[12] = '\xff';
  hello[13] = '\xff';
  Conversation conversation;
  CHECK(conversation.Say(hello).fate == Fate::kDrop);
}

TEST_CASE("Another version, another job or a full store is refused in words") {
  TcpStoreService::Options options;
  options.job = "mine";
  options.limits.max_clients = 1;
  Conversation conversation(options);
  const auto refusal = [&](const Hello& hello) {
    const auto id = conversation.service.Connect();
    CHECK(conversation.service.Receive(id, AsBytes(Encode(hello))).fate == Fate::kClose);
    std::string answer = conversation.TakeBytes(id);
    const auto reply = TakeHelloReply(answer);
    REQUIRE(reply);
    REQUIRE(reply->has_value());
    REQUIRE((*reply)->refused.has_value());
    return *(*reply)->refused;
  };
  const Error version = refusal({.version = 9, .job = "mine"});
  CHECK(version.code() == ErrorCode::kVersionMismatch);
  CHECK(version.message().find("version 2 ") != std::string::npos);
  CHECK(version.message().find("version 9") != std::string::npos);
  const Error job = refusal({.job = "yours"});
  CHECK(job.code() == ErrorCode::kVersionMismatch);
  CHECK(job.message().find("'mine'") != std::string::npos);
  CHECK(job.message().find("'yours'") != std::string::npos);
  CHECK(conversation.Say(Encode(Hello{.job = "mine"})).fate == Fate::kKeep);
  CHECK(refusal({.job = "mine"}).code() == ErrorCode::kResource);
}

TEST_CASE("A frame that is too short, too long, of unknown kind, or does not add up ends the connection") {
  const auto fate_of = [](const std::string& bytes) {
    Conversation conversation;
    conversation.Say(kHello);
    return conversation.Say(bytes).fate;
  };
  CHECK(fate_of(Frame("12345678")) == Fate::kDrop);  // shorter than id and kind
  // A length of 4 GiB; the client is dropped as soon as the length has arrived.
  CHECK(fate_of(std::string("\xff\xff\xff\xff", 4)) == Fate::kDrop);
  CHECK(fate_of(Frame(std::string(8, '\0') + '\x63')) == Fate::kDrop);  // kind 99
  CHECK(fate_of(Frame(std::string(8, '\0') + '\x02' + "\xff\xff\xff\xff")) ==
        Fate::kDrop);  // a count of 4 billion keys, but no bytes for them
  CHECK(fate_of(EncodeAbandon(1) + Frame(EncodeAbandon(1).substr(4) + "x")) == Fate::kDrop);  // one byte too many
  std::string cut = EncodeAdd(1, "key", 1).substr(4);
  cut.pop_back();
  CHECK(fate_of(Frame(cut)) == Fate::kDrop);
  // Two waits with the same id.
  CHECK(fate_of(EncodeWait(5, Keys{"a"}, "") + EncodeWait(5, Keys{"b"}, "")) == Fate::kDrop);
}

TEST_CASE("A wrong argument is answered, and the connection goes on") {
  Conversation conversation;
  conversation.Say(kHello);
  conversation.TakeBytes();
  CHECK(conversation.Say(EncodeAdd(3, "", 1)).fate == Fate::kKeep);
  const Reply reply = conversation.NextReply();
  CHECK(reply.id == 3);
  CHECK(reply.error == ErrorCode::kInvalidArgument);
  CHECK(conversation.Say(EncodeAdd(4, "n", 1)).fate == Fate::kKeep);
  CHECK(DecodeNumber(conversation.NextReply().payload) == 1);
}

TEST_CASE("A client that leaves takes its waits with it") {
  Conversation conversation;
  conversation.Say(kHello);
  conversation.Say(EncodeWait(1, Keys{"a"}, ""));
  conversation.Say(EncodeWait(2, Keys{"b"}, "cancel"));
  CHECK(conversation.service.state().pending_waits() == 2);
  conversation.service.Disconnect(conversation.id);
  CHECK(conversation.service.state().pending_waits() == 0);
  CHECK(conversation.service.clients_after_hello() == 0);
  const auto other = conversation.service.Connect();
  conversation.service.Receive(other, AsBytes(kHello));
  // This request does not wake other clients.
  CHECK(conversation.service.Receive(other, AsBytes(EncodeAdd(1, "a", 1))).fate == Fate::kKeep);
}

TEST_CASE("Pending waits of one client have a limit, and beyond it an answer") {
  TcpStoreService::Options options;
  options.limits.max_client_waits = 2;
  Conversation conversation(options);
  conversation.Say(kHello);
  conversation.Say(EncodeWait(1, Keys{"a"}, "") + EncodeWait(2, Keys{"a"}, ""));
  conversation.TakeBytes();
  conversation.Say(EncodeWait(3, Keys{"a"}, ""));
  CHECK(conversation.NextReply().error == ErrorCode::kResource);
}

TEST_CASE("Unfinished requests of all clients together have a limit; who passes it is dropped") {
  TcpStoreService::Options options;
  options.limits.max_input_bytes = 10'000;
  Conversation conversation(options);
  conversation.Say(kHello);
  const std::vector<KeyValue> large{{"key", std::string(50'000, 'v')}};
  const std::string request = EncodeSet(1, large);
  CHECK(conversation.Say(std::string_view(request).substr(0, 9000)).fate == Fate::kKeep);
  const auto other = conversation.service.Connect();
  CHECK(conversation.service.Receive(other, AsBytes(kHello)).fate == Fate::kKeep);
  CHECK(conversation.Say(std::string_view(request).substr(9000, 9000)).fate == Fate::kDrop);
  conversation.service.Disconnect(conversation.id);
  CHECK(conversation.service.input_bytes() == 0);
}

TEST_CASE("A client that does not take its answers is not read further, and loses nothing") {
  TcpStoreService::Options options;
  options.limits.max_client_output_bytes = 4096;
  Conversation conversation(options);
  conversation.Say(kHello);
  const std::vector<KeyValue> entries{{"key", std::string(3000, 'v')}};
  conversation.Say(EncodeSet(1, entries));
  std::string requests;
  for (std::uint64_t id = 2; id < 12; ++id) requests += EncodeGet(id, Keys{"key"});
  CHECK(conversation.Say(requests).fate == Fate::kKeep);
  CHECK(!conversation.service.WantsInput(conversation.id));
  CHECK(conversation.service.LeftOff(conversation.id));
  std::string answers;
  while (conversation.service.LeftOff(conversation.id)) {
    CHECK(conversation.service.output(conversation.id).bytes() < 8000);
    answers += conversation.TakeBytes();
    CHECK(conversation.service.Resume(conversation.id).fate == Fate::kKeep);
  }
  answers += conversation.TakeBytes();
  std::size_t replies = 0;
  std::string_view rest = std::string_view(answers).substr(kWelcome.size());
  while (!rest.empty()) {
    const auto frame = FirstFrame(rest);
    REQUIRE(frame);
    REQUIRE(frame->has_value());
    rest.remove_prefix(kLengthBytes + (*frame)->size());
    ++replies;
  }
  CHECK(replies == 11);
}

TEST_CASE("Values too large together for one answer are refused with their size") {
  Conversation conversation;
  conversation.Say(kHello);
  const std::vector<KeyValue> entries{{"key", std::string(kMaxValueBytes, 'v')}};
  conversation.Say(EncodeSet(1, entries));
  conversation.TakeBytes();
  conversation.Say(EncodeGet(2, Keys(65, "key")));
  const Reply reply = conversation.NextReply();
  CHECK(reply.error == ErrorCode::kResource);
  CHECK(reply.payload.find("68157440 bytes") != std::string::npos);
  conversation.Say(EncodeGet(3, Keys(64, "key")));
  CHECK(DecodeValues(conversation.NextReply().payload)->size() == 64);
}

TEST_CASE("Random bytes never do more than end their own connection") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    Conversation conversation;
    conversation.Say(kHello);
    const auto bystander = conversation.service.Connect();
    conversation.service.Receive(bystander, AsBytes(kHello));
    conversation.service.Receive(bystander, AsBytes(EncodeWait(1, Keys{"never"}, "")));
    for (int i = 0; i < 40; ++i) {
      // Besides random bytes, there are frames with a correct length, id and kind, and real requests with flipped bits.
      // They reach more of the server's code.
      std::string bytes;
      if (random.Chance(0.5)) {
        for (std::uint64_t n = random.Below(64); n > 0; --n) bytes.push_back(static_cast<char>(random.Next()));
        bytes.insert(0, std::string(8, '\1') + static_cast<char>(random.Between(1, 7)));
        bytes = Frame(bytes);
      } else {
        const std::vector<KeyValue> entries{{"a", "1"}, {"b", "22"}};
        bytes = random.Chance(0.5) ? EncodeSet(1, entries) : EncodeWait(random.Below(4), Keys{"a", "zz"}, "b");
        bytes[random.Below(bytes.size())] ^= static_cast<char>(1 << random.Below(8));
      }
      if (conversation.Say(bytes).fate != Fate::kKeep) {
        conversation.service.Disconnect(conversation.id);
        conversation.id = conversation.service.Connect();
        conversation.Say(kHello);
      }
    }
    CHECK(conversation.service.Receive(bystander, AsBytes(EncodeAdd(2, "counter", 1))).fate == Fate::kKeep);
    conversation.service.Disconnect(conversation.id);
    conversation.service.Disconnect(bystander);
    CHECK(conversation.service.state().pending_waits() == 0);
    CHECK(conversation.service.input_bytes() == 0);
  }
}

TEST_CASE("An answer of a kind that is no error's is refused, not taken for a fault of Rondo") {
  const std::string id(8, '\1');
  CHECK(DecodeReply(id + '\0'));
  CHECK(DecodeReply(id + static_cast<char>(ErrorCode::kStoreTimeout))->error == ErrorCode::kStoreTimeout);
  const auto unknown = DecodeReply(id + '\x80');
  REQUIRE(!unknown);
  CHECK(unknown.error().code() == ErrorCode::kProtocol);
}

TEST_CASE("Random answers never do more than be refused by the client's decoders") {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    Random random(seed);
    std::string bytes;
    for (std::uint64_t n = random.Below(40); n > 0; --n) bytes.push_back(static_cast<char>(random.Next() % 5));
    (void)DecodeReply(bytes);
    (void)DecodeNumber(bytes);
    (void)DecodeCompareSet(bytes);
    if (const auto values = DecodeValues(bytes)) CHECK(values->size() <= bytes.size());
    std::string hello = std::string(kMagic) + bytes;
    if (const auto reply = TakeHelloReply(hello); reply && *reply) CHECK(hello.size() < kMagic.size() + bytes.size());
  }
}

TEST_CASE("A count of values beyond what a batch may have is refused, though the answer has a byte for each") {
  const auto payload = [](std::uint32_t count) {
    std::string bytes(4 + std::size_t{count}, '\0');  // each value is absent
    StoreLittle(reinterpret_cast<std::byte*>(bytes.data()), count);
    return bytes;
  };
  CHECK(DecodeValues(payload(kMaxBatch))->size() == kMaxBatch);
  const auto beyond = DecodeValues(payload(kMaxBatch + 1));
  REQUIRE(!beyond);
  CHECK(beyond.error().code() == ErrorCode::kProtocol);
}

TEST_CASE("A foreign client's job is reported in one line that a terminal can show") {
  Conversation conversation({.job = "ours", .limits = {}});
  const auto verdict = conversation.Say(Encode(Hello{.job = "x'\n\x1b[2J"}));
  CHECK(verdict.fate == Fate::kClose);
  CHECK(verdict.reason == "the store serves job 'ours', but this process belongs to job 'x'\\x0a\\x1b[2J'");
}

}  // namespace tcp_store_protocol_test
}  // namespace rondo::store_protocol
