// Tests the messages that two ranks exchange before they use RDMA: valid bytes must be decoded, invalid bytes must be
// refused.
#include "transport/ib/path_message.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "transport/ib/address.h"
#include "transport/ib/completions.h"
#include "transport/ib/device_events.h"

namespace rondo::ib {
namespace path_message_test {

PathMessage Offer() {
  PathMessage message{
      .word = PathWord::kOffer,
      .end =
          {.queue_pair = 0x123456, .first_packet = 0xABCDEF, .lid = 17, .mtu_bytes = 4096, .ethernet = true, .gid = {}},
      .remote_ring = {.address = 0x7F0011223344, .key = 9, .notices = 64, .ring_bytes = 1 << 18},
      .progress = {},
      .why = {}};
  for (std::size_t i = 0; i < message.end.gid.size(); ++i) message.end.gid[i] = static_cast<std::byte>(i + 1);
  return message;
}

TEST_CASE("Every word comes out as it went in") {
  for (const PathWord word :
       {PathWord::kOffer, PathWord::kAnswer, PathWord::kReady, PathWord::kPlain, PathWord::kBroken}) {
    PathMessage message = Offer();
    message.word = word;
    if (word == PathWord::kBroken) {
      message.progress = {.arrived = 0x123456789AB, .consumed = 0x123456789AA};
      message.ports = 2;
      message.your_fault = true;
    }
    message.why = word >= PathWord::kPlain ? "rxe0:1 cannot register 4096 bytes" : "";
    PathMessageBytes bytes;
    Encode(message, bytes);
    const auto read = Decode(bytes);
    REQUIRE(read);
    CHECK(*read == message);
  }
}

TEST_CASE("A reason that is too long is cut") {
  PathMessageBytes bytes;
  Encode({.word = PathWord::kPlain, .end = {}, .remote_ring = {}, .progress = {}, .why = std::string(1000, 'w')},
         bytes);
  const auto read = Decode(bytes);
  REQUIRE(read);
  CHECK(read->why == std::string(kMaxWhyBytes, 'w'));
}

TEST_CASE("What the other end says of itself cannot command a terminal") {
  PathMessageBytes bytes;
  Encode({.word = PathWord::kPlain, .end = {}, .remote_ring = {}, .progress = {}, .why = "\x1b[2J"}, bytes);
  CHECK(Decode(bytes)->why == "\\x1b[2J");
}

TEST_CASE("Other bytes are refused") {
  PathMessageBytes good;
  Encode(Offer(), good);
  const auto refused = [](const PathMessageBytes& bytes) {
    const auto read = Decode(bytes);
    return !read && read.error().code() == ErrorCode::kProtocol;
  };
  CHECK_FALSE(refused(good));
  CHECK(refused({}));
  PathMessageBytes bytes = good;
  bytes[0] ^= std::byte{1};
  CHECK(refused(bytes));
  for (const int word : {0, 6, 255}) {
    bytes = good;
    bytes[8] = static_cast<std::byte>(word);
    CHECK(refused(bytes));
  }
  bytes = good;
  bytes[9] = std::byte{2};  // the flag for Ethernet; it must be 0 or 1
  CHECK(refused(bytes));
  bytes = good;
  bytes[79] = std::byte{2};  // the flag that says that the peer is the cause; it must be 0 or 1
  CHECK(refused(bytes));
  bytes = good;
  bytes[80] = static_cast<std::byte>(kMaxWhyBytes + 1);  // the length of the reason
  CHECK(refused(bytes));
}

TEST_CASE("An address of RDMA comes out as it went in, and no other does") {
  const IbAddress address{.host_id = "boot-net", .port = "mlx5_0:1 RoCE v2 10.0.0.1 (eth1)", .base = "RTA..."};
  const auto read = DecodeIbAddress(Encode(address));
  REQUIRE(read);
  CHECK(*read == address);
  CHECK(DecodeIbAddress(Encode({}))->port.empty());
  const auto words = [](std::string_view text) { return DecodeIbAddress(text).error().message(); };
  CHECK(words("shm1") == "it is not an RDMA address");
  CHECK(words("") == "it is not an RDMA address");
  CHECK(words("ib01") == "it is a truncated RDMA address");
  CHECK(words("ib01\x05wxyz") == "it is a truncated RDMA address");
}

TEST_CASE("Every status of a completion has a name and a remedy") {
  for (int status = IBV_WC_LOC_LEN_ERR; status <= IBV_WC_TM_RNDV_INCOMPLETE; ++status) {
    CAPTURE(status);
    const CompletionWords words = Words(static_cast<ibv_wc_status>(status));
    CHECK(words.name != "an unknown status");
    CHECK(words.remedy.size() > 10);
  }
  CHECK(Words(static_cast<ibv_wc_status>(31)).name == "an unknown status");
  CHECK(Words(IBV_WC_RETRY_EXC_ERR).peer);
  CHECK_FALSE(Words(IBV_WC_LOC_QP_OP_ERR).peer);
}

TEST_CASE("Every event of a device has a name, and a remedy where something is wrong") {
  for (int event = IBV_EVENT_CQ_ERR; event <= IBV_EVENT_WQ_FATAL; ++event) {
    CAPTURE(event);
    CHECK(Words(static_cast<ibv_event_type>(event)).name != "an unknown event");
  }
  CHECK(Words(static_cast<ibv_event_type>(31)).name == "an unknown event");
  for (const ibv_event_type event : {IBV_EVENT_PORT_ERR, IBV_EVENT_SM_CHANGE, IBV_EVENT_GID_CHANGE}) {
    CHECK(Words(event).of_port);
    CHECK_FALSE(Words(event).remedy.empty());
  }
  CHECK_FALSE(Words(IBV_EVENT_DEVICE_FATAL).of_port);
  CHECK(Words(IBV_EVENT_PORT_ACTIVE).remedy.empty());
}

}  // namespace path_message_test
}  // namespace rondo::ib
