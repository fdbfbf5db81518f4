// The wire format of lanes, byte by byte: Encode writes what docs/WIRE.md specifies.
#include "collectives/engine/frame.h"

#include <doctest/doctest.h>

#include <array>

#include "base/random.h"

namespace rondo {
namespace frame_test {

FrameHeader Example() {
  return {.operation = {.sequence = 0x0102030405060708,
                        .count = 1000,
                        .collective = Collective::kAllReduce,
                        .type = DataType::kFloat32,
                        .op = ReduceOp::kSum,
                        .algorithm = Algorithm::kRing,
                        .root = 0},
          .transfer = 7,
          .payload_bytes = 4000,
          .payload_offset = 0x10000,
          .transfer_bytes = 0x10FA0,
          .stream_offset = 0x20000};
}

TEST_CASE("a header has the bytes of the document") {
  std::array<std::byte, kFrameHeaderBytes> bytes;
  Encode(Example(), bytes);
  const std::array<unsigned char, kFrameHeaderBytes> expected{
      'R',  'O',  1,    1,    0,    0,    0,    0,     // magic, version, type, checksum
      0,    0,    2,    0,    0,    0,    0,    0,     // stream offset
      0,    0,    1,    0,    0,    0,    0,    0,     // payload offset
      0xA0, 0x0F, 0,    0,    7,    0,    0,    0,     // payload bytes, transfer
      0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01,  // sequence
      0xE8, 0x03, 0,    0,    0,    0,    0,    0,     // count
      0,    0,    0,    0,    1,    9,    1,    1,     // root, collective, type, operation, algorithm
      0xA0, 0x0F, 1,    0,    0,    0,    0,    0,     // transfer bytes
  };
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    CAPTURE(i);
    CHECK(bytes[i] == std::byte{expected[i]});
  }
}

TEST_CASE("decoding gives back what was encoded") {
  std::array<std::byte, kFrameHeaderBytes> bytes;
  Encode(Example(), bytes);
  FrameHeader decoded;
  CHECK(!Decode(bytes, decoded));
  CHECK(decoded == Example());
}

TEST_CASE("an operation whose blocks have counts of their own says so beside its collective") {
  std::array<std::byte, kFrameHeaderBytes> bytes;
  FrameHeader header = Example();
  header.operation.collective = Collective::kAllToAll;
  header.operation.varying = true;
  Encode(header, bytes);
  CHECK(bytes[52] == std::byte{0x89});
  FrameHeader decoded;
  CHECK(!Decode(bytes, decoded));
  CHECK(decoded == header);
}

TEST_CASE("an operation on memory of devices says so beside its collective; its window is not sent") {
  std::array<std::byte, kFrameHeaderBytes> bytes;
  FrameHeader header = Example();
  header.operation.on_devices = true;
  header.operation.window = 17;
  Encode(header, bytes);
  CHECK(bytes[52] == std::byte{0x41});
  FrameHeader decoded;
  CHECK(!Decode(bytes, decoded));
  CHECK(decoded.operation.window == 0);
  CHECK(decoded == header);
  header.operation.in_graph = true;
  CHECK(decoded != header);
  Encode(header, bytes);
  CHECK(bytes[52] == std::byte{0x61});
  CHECK(!Decode(bytes, decoded));
  CHECK(decoded == header);
  header.operation.on_devices = false;
  CHECK(decoded != header);
}

TEST_CASE("an operation is described in words") {
  const auto text = [](OperationDescriptor descriptor) { return descriptor.ToString(); };
  CHECK(text({.collective = Collective::kBarrier}) == "barrier by dissemination");
  CHECK(text({.count = 3, .collective = Collective::kScatter, .algorithm = Algorithm::kTree, .root = 2}) ==
        "scatter uint8 x 3 from rank 2 by tree");
  CHECK(text({.count = 3, .collective = Collective::kReduce, .algorithm = Algorithm::kChain, .root = 2}) ==
        "reduce uint8 x 3 sum to rank 2 by chain");
  CHECK(text({.count = 9, .collective = Collective::kAllGather, .algorithm = Algorithm::kRing, .varying = true}) ==
        "all_gather_v uint8 x 9 by ring");
  CHECK(text({.collective = Collective::kGather, .algorithm = Algorithm::kDirect, .varying = true}) ==
        "gather_v uint8 to rank 0 by direct");
  CHECK(text({.count = 4, .collective = Collective::kAllReduce, .algorithm = Algorithm::kRing, .on_devices = true}) ==
        "all_reduce uint8 x 4 sum on devices by ring");
  CHECK(text({.collective = Collective::kBarrier,
              .algorithm = Algorithm::kIntranode,
              .on_devices = true,
              .in_graph = true}) == "barrier in a graph by intranode");
  CHECK(text({.collective = static_cast<Collective>(99)}) == "unknown collective 99");
}

TEST_CASE("a header of the expected operation is known by its bytes, and no other is") {
  std::array<std::byte, kFrameHeaderBytes> bytes;
  std::array<std::byte, kDescriptorBytes> descriptor;
  const FrameHeader sent = Example();
  Encode(sent.operation, descriptor);
  Encode(sent, bytes);
  FrameHeader decoded{.operation = sent.operation};
  CHECK(DecodeOf(descriptor, bytes, decoded));
  CHECK(decoded == sent);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    CAPTURE(at);
    std::array<std::byte, kFrameHeaderBytes> damaged = bytes;
    damaged[at] ^= std::byte{1};
    FrameHeader whole, part{.operation = sent.operation};
    const bool sound_and_same = !Decode(damaged, whole) && whole.operation == sent.operation;
    CHECK(DecodeOf(descriptor, damaged, part) == sound_and_same);
    if (sound_and_same) CHECK(part == whole);
  }
}

TEST_CASE("another magic, version, type and an unagreed checksum are refused in words") {
  for (const std::size_t at : {0, 1, 2, 3, 4, 7}) {
    std::array<std::byte, kFrameHeaderBytes> bytes;
    Encode(Example(), bytes);
    bytes[at] ^= std::byte{0x40};
    FrameHeader decoded;
    CAPTURE(at);
    CHECK(Decode(bytes, decoded));
  }
}

TEST_CASE("random bytes never crash the decoder") {
  Random random(11);
  for (int i = 0; i < 10'000; ++i) {
    std::array<std::byte, kFrameHeaderBytes> bytes;
    Encode(Example(), bytes);
    for (std::size_t flips = random.Between(1, 8); flips > 0; --flips)
      bytes[random.Below(bytes.size())] ^= static_cast<std::byte>(random.Between(1, 255));
    FrameHeader decoded;
    if (!Decode(bytes, decoded)) CHECK(!decoded.operation.ToString().empty());
  }
}

TEST_CASE("the length of a transfer in the stream counts headers and padding") {
  CHECK(StreamBytes(0, 256) == 64);
  CHECK(StreamBytes(1, 256) == 128);
  CHECK(StreamBytes(256, 256) == 320);
  CHECK(StreamBytes(257, 256) == 320 + 128);
}

}  // namespace frame_test
}  // namespace rondo
