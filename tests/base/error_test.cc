// Tests the texts of errors. Operators read them under pressure, so each text must be understood as a single line of a
// log.
#include "base/error.h"

#include <doctest/doctest.h>

#include <memory>
#include <set>
#include <string>

#include "base/result.h"

namespace rondo {
namespace error_test {

Error PeerDied() {
  ErrorDetails details;
  details.code = ErrorCode::kPeerLost;
  details.message = "rank 2 died";
  details.rank = 0;
  details.culprit = 2;
  details.host = "b";
  details.address = "10.0.0.2:4711";
  return Error(details);
}

TEST_CASE("An error with only a message is the code's name and the message") {
  CHECK(Error(ErrorCode::kStoreLost, "connection to 10.0.0.1:29500 broke").ToString() ==
        "store_lost: connection to 10.0.0.1:29500 broke");
}

TEST_CASE("The culprit is named with its host and address, and so is the rank that reports") {
  CHECK(PeerDied().ToString() ==
        "peer_lost: rank 2 died; caused by rank 2 (host b, 10.0.0.2:4711); reported by rank 0");
}

TEST_CASE("An upper layer adds the operation, the step and how far it came") {
  const Error error = PeerDied().With([](ErrorDetails& details) {
    details.collective = "all_reduce float32 x 1000 sum";
    details.sequence = 17;
    details.step = 5;
    details.bytes_done = 0;
    details.bytes_due = 400;
  });
  CHECK(error.ToString() ==
        "peer_lost: rank 2 died; caused by rank 2 (host b, 10.0.0.2:4711); reported by rank 0; "
        "in all_reduce float32 x 1000 sum #17, step 5, 0 of 400 bytes");
}

TEST_CASE("The interface in use follows the address") {
  const Error error = PeerDied().With([](ErrorDetails& details) { details.interface = "eth0"; });
  CHECK(error.ToString() ==
        "peer_lost: rank 2 died; caused by rank 2 (host b, 10.0.0.2:4711 via eth0); reported by rank 0");
}

TEST_CASE("A culprit of which nothing else is known stands alone") {
  ErrorDetails details;
  details.code = ErrorCode::kTimeout;
  details.message = "no answer within 5 s";
  details.culprit = 3;
  CHECK(Error(details).ToString() == "timeout: no answer within 5 s; caused by rank 3");
}

TEST_CASE("An address without a culprit is still printed") {
  ErrorDetails details;
  details.code = ErrorCode::kAddressInUse;
  details.message = "cannot listen";
  details.address = "0.0.0.0:29500";
  CHECK(Error(details).ToString() == "address_in_use: cannot listen; address 0.0.0.0:29500");
}

TEST_CASE("A consequence ends with its first cause") {
  ErrorDetails details;
  details.code = ErrorCode::kPeerAborted;
  details.message = "rank 1 aborted";
  details.culprit = 1;
  details.first_cause = "peer_lost: rank 2 died";
  CHECK(Error(details).ToString() ==
        "peer_aborted: rank 1 aborted; caused by rank 1; first cause: peer_lost: rank 2 died");
}

TEST_CASE("With changes a copy and leaves the error as it was") {
  const Error before = PeerDied();
  const std::string text_before = before.ToString();
  const Error after = before.With([](ErrorDetails& details) { details.message = "rank 2 left"; });
  CHECK(before.message() == "rank 2 died");
  CHECK(before.ToString() == text_before);
  CHECK(after.message() == "rank 2 left");
  CHECK(after.code() == ErrorCode::kPeerLost);
  CHECK(after.culprit() == 2);
}

TEST_CASE("Every code has a name of its own, and its number comes back as it") {
  std::set<std::string> names;
  for (int number = 1; number <= static_cast<int>(ErrorCode::kDevice); ++number) {
    const ErrorCode code = ErrorCodeFromNumber(static_cast<std::uint8_t>(number));
    CHECK(static_cast<int>(code) == number);
    CHECK(names.insert(std::string(Name(code))).second);
  }
  CHECK(names.count("ok") == 0);
  CHECK(Name(ErrorCode::kInvalidArgument) == "invalid_argument");
  CHECK(Name(ErrorCode::kPeerAborted) == "peer_aborted");
  CHECK(Name(ErrorCode::kInternal) == "internal");
}

TEST_CASE("A number from the wire that no code has becomes internal") {
  CHECK(ErrorCodeFromNumber(0) == ErrorCode::kInternal);
  CHECK(ErrorCodeFromNumber(static_cast<std::uint8_t>(ErrorCode::kDevice) + 1) == ErrorCode::kInternal);
  CHECK(ErrorCodeFromNumber(255) == ErrorCode::kInternal);
}

Result<int> Half(int value) {
  if (value % 2 != 0) return Fail(ErrorCode::kInvalidArgument, "{} is odd", value);
  return value / 2;
}

Result<int> Quarter(int value) {
  RONDO_ASSIGN(const int half, Half(value));
  RONDO_ASSIGN(const int quarter, Half(half));
  return quarter;
}

Status BothEven(int left, int right) {
  RONDO_TRY(Half(left));
  RONDO_TRY(Half(right));
  return {};
}

TEST_CASE("RONDO_ASSIGN gives the value or returns the first error") {
  CHECK(Quarter(12).value() == 3);
  CHECK(Quarter(6).error().message() == "3 is odd");
  CHECK(Quarter(5).error().ToString() == "invalid_argument: 5 is odd");
}

TEST_CASE("RONDO_TRY goes on after success and returns the first error") {
  CHECK(BothEven(2, 4).has_value());
  CHECK(BothEven(1, 3).error().message() == "1 is odd");
  CHECK(BothEven(2, 3).error().message() == "3 is odd");
}

Result<std::unique_ptr<int>> Owned() { return std::make_unique<int>(5); }
Result<std::unique_ptr<int>> PassedOn() {
  RONDO_ASSIGN(std::unique_ptr<int> owned, Owned());
  return owned;
}

TEST_CASE("Values that can only be moved pass through") { CHECK(**PassedOn() == 5); }

}  // namespace error_test
}  // namespace rondo
