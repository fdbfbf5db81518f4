// Tests one flipped bit of one field between two ranks, without checksums of frames. Every header is checked, no length
// is trusted, and no rank hangs. The payload is not protected in this mode, so it may have any value
// (checksums_test.cc).
#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/access.h"
#include "tests/faults/sockets/proxied_ranks.h"
#include "tests/support/fault_row.h"

namespace rondo::fault {
namespace flipped_bits_test {

using namespace std::chrono_literals;

struct Field {
  std::string name;
  std::uint64_t byte;
  int bit;
  ErrorCode code;
};

// The fields of a frame (docs/WIRE.md, "Frames"). A high bit makes a length or an offset absurd. A low bit leaves the
// value plausible.
const Field kFrameFields[] = {
    {"magic", 0, 0, ErrorCode::kProtocol},
    {"version", 2, 1, ErrorCode::kProtocol},
    {"type", 3, 1, ErrorCode::kProtocol},
    {"crc", 4, 0, ErrorCode::kProtocol},
    {"stream_offset", 8, 6, ErrorCode::kProtocol},
    {"stream_offset, highest bit", 15, 7, ErrorCode::kProtocol},
    {"payload_offset", 16, 6, ErrorCode::kProtocol},
    {"payload_offset, highest bit", 23, 7, ErrorCode::kProtocol},
    {"payload_bytes", 24, 2, ErrorCode::kProtocol},
    {"payload_bytes, highest bit", 27, 7, ErrorCode::kProtocol},
    {"transfer", 28, 0, ErrorCode::kProtocol},
    {"sequence", 32, 0, ErrorCode::kMismatch},
    {"sequence, highest bit", 39, 7, ErrorCode::kMismatch},
    {"count", 40, 0, ErrorCode::kMismatch},
    {"count, highest bit", 47, 7, ErrorCode::kMismatch},
    {"root", 48, 0, ErrorCode::kMismatch},
    {"root, highest bit", 51, 7, ErrorCode::kMismatch},
    {"collective", 52, 1, ErrorCode::kMismatch},
    {"collective, to none there is", 52, 6, ErrorCode::kMismatch},
    {"collective, counts differ", 52, 7, ErrorCode::kMismatch},
    {"data_type", 53, 0, ErrorCode::kMismatch},
    {"data_type, to none there is", 53, 7, ErrorCode::kMismatch},
    {"operation", 54, 1, ErrorCode::kMismatch},
    {"operation, to a user's", 54, 7, ErrorCode::kMismatch},
    {"algorithm", 55, 1, ErrorCode::kMismatch},
    {"algorithm, to none there is", 55, 7, ErrorCode::kMismatch},
    {"transfer_bytes", 56, 2, ErrorCode::kMismatch},
    {"transfer_bytes, highest bit", 63, 7, ErrorCode::kMismatch},
};

TEST_CASE("a bit of any field of a frame's header turned over is a typed error on both ranks, at once") {
  ProxiedJob job;
  for (const Field& field : kFrameFields) {
    CAPTURE(field.name);
    const auto flip = job.Add({.stream = LaneStream(0, 1), .from_byte = field.byte}, Corrupt{.bit = field.bit});
    const auto before = std::chrono::steady_clock::now();
    const auto statuses = job.Run([](Communicator& c) { return SumByRing(c, 1000); });
    CHECK(std::chrono::steady_clock::now() - before < 10s);
    CHECK(flip->fired.count() == 1);
    job.proxy().Remove(flip);
    CAPTURE(TextOf(statuses));
    StateFault(10, flip->fired.count(), statuses, {.took = job.took()});
    for (const Status& status : statuses) CHECK(CodeOf(status) == field.code);
    if (statuses[0] || statuses[1]) continue;
    // After a mismatch each rank names the other one.
    CHECK(statuses[1].error().culprit() == 0);
    CHECK(statuses[0].error().culprit() == (field.code == ErrorCode::kMismatch ? 1 : 0));
    CHECK(statuses[0].error().message() == statuses[1].error().message());
    CHECK(statuses[1].error().details().sequence == 1);
  }
}

TEST_CASE(
    "a flipped bit of any byte of a control message's header hangs no rank; the sender of nonsense gets that error") {
  constexpr std::uint64_t kHeaderBytes = 12;
  ProxiedJob job({.timeout = 600ms});
  for (std::uint64_t byte = 0; byte < kHeaderBytes; ++byte) {
    CAPTURE(byte);
    // The first control frame of each rank is a heartbeat without a body.
    const auto flip = job.Add({.stream = ControlStream(1, 0), .from_byte = byte}, Corrupt{.bit = 4});
    const auto before = std::chrono::steady_clock::now();
    const auto statuses = job.Run([&](Communicator& c) -> Status {
      // Rank 0 waits until the fault has fired. Otherwise it could send its goodbye first, and rank 1 would then ignore
      // the damaged bytes.
      if (c.rank() == 0 && !flip->fired.Await(1, kFiring))
        return Fail(ErrorCode::kInternal, "no rank began a handshake");
      return ThenClose(c, SumByRing(c, 1000, 600ms));
    });
    CHECK(std::chrono::steady_clock::now() - before < 10s);
    CHECK(flip->fired.count() == 1);
    job.proxy().Remove(flip);
    CAPTURE(TextOf(statuses));
    StateFault(10, flip->fired.count(), statuses, {.took = job.took()});
    const bool is_kind = byte == 0, is_absurd_length = byte == 6 || byte == 7;
    if (is_kind || is_absurd_length) {
      CheckAllName(statuses, ErrorCode::kProtocol, 1);
    } else if (byte == 4 || byte == 5) {
      // A wrong but allowed length consumes the following bytes. Then rank 0 finds a wrong checksum, or it never
      // receives rank 1's goodbye. In the second case rank 0 times out; or it reports rank 1 as lost, if rank 1 has
      // received rank 0's goodbye and has ended.
      const ErrorCode code = CodeOf(statuses[0]);
      CHECK((code == ErrorCode::kCorrupt || code == ErrorCode::kTimeout || code == ErrorCode::kPeerLost));
    } else {
      CheckAllName(statuses, ErrorCode::kCorrupt, 1);  // control frames always have checksums
    }
  }
}

TEST_CASE(
    "a flipped bit of any field of a hello: the connection is tried again, or refused in words, and no rank hangs") {
  // The fields of a hello (docs/WIRE.md, "Handshake").
  struct HelloField {
    std::string name;
    std::uint64_t byte;
  };
  const HelloField fields[] = {
      {"magic", 0},
      {"version", 8},
      {"body_bytes", 10},
      {"body_bytes, high", 11},
      {"kind", 12},
      {"stream", 14},
      {"proves", 15},
      {"index", 16},
      {"rail", 20},
      {"from", 24},
      {"to", 28},
      {"generation", 40},
      {"job's length", 48},
      {"job", 49},
      {"from_instance", 57},
      {"to_instance", 91},
  };
  for (const HelloField& field : fields) {
    CAPTURE(field.name);
    ProxiedJob job({.timeout = 500ms, .adjust_tcp = [](Rank, TcpOptions& tcp) { tcp.handshake_timeout = 100ms; }});
    const auto flip = job.Add({.listener = "rank 0", .way = Way::kToServer, .connection = 1, .from_byte = field.byte},
                              Corrupt{.bit = 2});
    const auto before = std::chrono::steady_clock::now();
    const auto statuses = job.Run([&](Communicator& c) -> Status {
      // If both ranks connected at once, one connection could be abandoned before it has carried any byte.
      if (c.rank() == 0 && !flip->fired.Await(1, kFiring)) return Fail(ErrorCode::kInternal, "no rank connected");
      return SumByRing(c, 1000, 500ms);
    });
    CHECK(std::chrono::steady_clock::now() - before < 10s);
    CHECK(flip->fired.count() == 1);
    CAPTURE(TextOf(statuses));
    StateFault(10, flip->fired.count(), statuses, {.took = job.took()});
    for (const Status& status : statuses) {
      if (status) continue;
      CHECK(status.error().code() != ErrorCode::kInternal);
      CHECK_FALSE(status.error().message().empty());
    }
  }
}

TEST_CASE("a bit of any field of a handshake with tokens turned over: refused in words, or the call is repeated") {
  // The fields of a handshake with a token (docs/WIRE.md, "The job's token"). After a hello of 121 bytes come the nonce
  // and then the message with the proof.
  struct HandshakeField {
    std::string name;
    std::uint64_t byte;
  };
  for (const HandshakeField& field : {HandshakeField{"proves", 15}, HandshakeField{"from", 24},
                                      HandshakeField{"nonce", 130}, HandshakeField{"magic of the proof", 137},
                                      HandshakeField{"version of the proof", 145}, HandshakeField{"proof", 160}}) {
    CAPTURE(field.name);
    ProxiedJob job({.timeout = 500ms, .adjust_tcp = [](Rank, TcpOptions& tcp) {
                      tcp.handshake_timeout = 100ms;
                      tcp.token = *JobToken::Make("secret", "the token");
                    }});
    const auto flip = job.Add({.listener = "rank 0", .way = Way::kToServer, .connection = 1, .from_byte = field.byte},
                              Corrupt{.bit = 2});
    const auto statuses = job.Run([&](Communicator& c) -> Status {
      if (c.rank() == 0 && !flip->fired.Await(1, kFiring)) return Fail(ErrorCode::kInternal, "no rank connected");
      return SumByRing(c, 1000, 500ms);
    });
    CHECK(flip->fired.count() == 1);
    CAPTURE(TextOf(statuses));
    for (const Status& status : statuses) {
      if (status) continue;
      CHECK(status.error().code() != ErrorCode::kInternal);
      CHECK_FALSE(status.error().message().empty());
    }
  }
}

// With a token, a lane's first byte comes after the proof.
TEST_CASE("a bit of a payload turned over is not noticed: it arrives, alone, in the result") {
  for (const bool with_token : {false, true}) {
    ProxiedJob job({.adjust_tcp = [&](Rank, TcpOptions& tcp) {
      if (with_token) tcp.token = *JobToken::Make("secret", "the token");
    }});
    const std::uint64_t element = 10;
    const auto flip = job.Add({.stream = LaneStream(0, 1), .from_byte = 64 + 4 * element + 2}, Corrupt{.bit = 3});
    std::vector<std::uint32_t> got(100, 0);
    const auto statuses = job.Run([&](Communicator& c) {
      std::vector<std::uint32_t> zeros(100, 0);
      std::uint32_t* const values = c.rank() == 1 ? got.data() : zeros.data();
      const Status status = c.Broadcast(values, values, 100, DataType::kUint32, 0, {.algorithm = Algorithm::kDirect});
      return ThenClose(c, status);
    });
    CHECK(flip->fired.count() == 1);
    CAPTURE(TextOf(statuses));
    StateFault(9, flip->fired.count(), "documented: undetected without checksums");
    for (const Status& status : statuses) CHECK(status.has_value());
    for (std::uint64_t i = 0; i < got.size(); ++i) CHECK(got[i] == (i == element ? std::uint32_t{1} << (16 + 3) : 0));
  }
}

}  // namespace flipped_bits_test
}  // namespace rondo::fault
