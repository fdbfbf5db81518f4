// Compares the bodies of control messages byte by byte: goodbyes, progress reports and failure notices.
#include <doctest/doctest.h>

#include <string>

#include "collectives/communicator/control.h"
#include "transport/transport.h"

namespace rondo {
namespace control_bodies_test {

AbortNotice Notice(std::string message) {
  AbortNotice notice;
  notice.code = ErrorCode::kPeerLost;
  notice.culprit = 2;
  notice.origin = 1;
  notice.sequence = 17;
  notice.collective = "all_reduce";
  notice.message = std::move(message);
  return notice;
}

TEST_CASE("An abort notice survives the wire, its texts cut to their limit") {
  const auto back = DecodeAbortNotice(Encode(Notice(std::string(2000, 'm'))));
  REQUIRE(back);
  CHECK(back->code == ErrorCode::kPeerLost);
  CHECK(back->culprit == 2);
  CHECK(back->origin == 1);
  CHECK(back->sequence == 17);
  CHECK(back->message == std::string(760, 'm'));
}

TEST_CASE("A notice with a text longer than the format allows is none: it would not be passed on as it came") {
  std::string body = Encode(Notice(std::string(760, 'm')));
  const std::size_t length_at = body.find(std::string("\xf8\x02m", 3));
  REQUIRE(length_at != std::string::npos);
  body[length_at] = '\xf9';
  body.insert(length_at + 2, 1, 'm');
  CHECK(body.size() <= kMaxControlBodyBytes);
  CHECK(!DecodeAbortNotice(body));
}

TEST_CASE(
    "A goodbye carries the call that its rank refused, cut to the limit of a text, and a goodbye without one is as "
    "short as ever") {
  const OperationDescriptor last{.sequence = 3, .count = 5, .collective = Collective::kBroadcast, .root = 1};
  CHECK(Encode(Goodbye{last}).size() == kDescriptorBytes);
  const auto plain = DecodeGoodbye(Encode(Goodbye{last}));
  REQUIRE(plain);
  CHECK(plain->last == last);
  CHECK(plain->refused.empty());
  const auto refused = DecodeGoodbye(Encode(Goodbye{last, std::string(2000, 'r')}));
  REQUIRE(refused);
  CHECK(refused->last == last);
  CHECK(refused->refused == std::string(760, 'r'));
  const std::string body = Encode(Goodbye{last, "all_reduce: input is null"});
  CHECK(body.size() <= kMaxControlBodyBytes);
  CHECK(!DecodeGoodbye(body.substr(0, body.size() - 1)));
  CHECK(!DecodeGoodbye(body + "x"));
  CHECK(!DecodeGoodbye(Encode(Goodbye{last}) + std::string(2, '\0')));
}

TEST_CASE("What a peer says of a failure can be shown on any terminal") {
  const auto decoded = DecodeAbortNotice(Encode(Notice("\x1b[31mrank 2 died\xff")));
  REQUIRE(decoded);
  CHECK(ErrorOf(*decoded, 0).message() == "\\x1b[31mrank 2 died\\xff");
}

}  // namespace control_bodies_test
}  // namespace rondo
