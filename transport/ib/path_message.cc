#include "transport/ib/path_message.h"

#include <algorithm>

#include "base/byte_codec.h"
#include "base/printable.h"

namespace rondo::ib {
namespace {

constexpr std::uint64_t kMessageMagic = 0x3262692d6f646e72;  // "rndo-ib2"

}  // namespace

void Encode(const PathMessage& message, PathMessageBytes& bytes) {
  ByteWriter writer;
  writer.Number(kMessageMagic).Number(static_cast<std::uint8_t>(message.word));
  const PathEnd& end = message.end;
  writer.Number<std::uint8_t>(end.ethernet ? 1 : 0).Number(end.lid).Number(end.mtu_bytes);
  writer.Number(end.queue_pair).Number(end.first_packet).Raw(Bytes(end.gid));
  const RemoteRing& remote_ring = message.remote_ring;
  writer.Number(remote_ring.address).Number(remote_ring.key).Number(remote_ring.notices).Number(remote_ring.ring_bytes);
  writer.Number(message.progress.arrived).Number(message.progress.consumed);
  writer.Number(message.ports).Number<std::uint8_t>(message.your_fault ? 1 : 0);
  writer.Text<std::uint8_t>(std::string_view(message.why).substr(0, kMaxWhyBytes));
  const std::string& text = writer.bytes();
  static_assert(8 + 1 + 1 + 2 + 2 + 4 + 4 + 16 + 8 + 4 + 4 + 8 + 8 + 8 + 1 + 1 + 1 + kMaxWhyBytes <= kPathMessageBytes);
  bytes.fill(std::byte{0});
  std::copy_n(AsBytes(text).begin(), text.size(), bytes.begin());
}

Result<PathMessage> Decode(const PathMessageBytes& bytes) {
  ByteReader reader{Bytes(bytes)};
  PathMessage message;
  const bool magic = reader.Number<std::uint64_t>() == kMessageMagic;
  const auto word = reader.Number<std::uint8_t>();
  const auto ethernet = reader.Number<std::uint8_t>();
  message.word = static_cast<PathWord>(word);
  PathEnd& end = message.end;
  end.ethernet = ethernet == 1;
  end.lid = reader.Number<std::uint16_t>();
  end.mtu_bytes = reader.Number<std::uint16_t>();
  end.queue_pair = reader.Number<std::uint32_t>();
  end.first_packet = reader.Number<std::uint32_t>();
  const std::string_view gid = reader.Raw(end.gid.size());
  if (reader.ok()) std::copy_n(AsBytes(gid).begin(), end.gid.size(), end.gid.begin());
  RemoteRing& remote_ring = message.remote_ring;
  remote_ring.address = reader.Number<std::uint64_t>();
  remote_ring.key = reader.Number<std::uint32_t>();
  remote_ring.notices = reader.Number<std::uint32_t>();
  remote_ring.ring_bytes = reader.Number<std::uint64_t>();
  message.progress.arrived = reader.Number<std::uint64_t>();
  message.progress.consumed = reader.Number<std::uint64_t>();
  message.ports = reader.Number<std::uint8_t>();
  const auto fault = reader.Number<std::uint8_t>();
  message.your_fault = fault == 1;
  message.why = Printable(reader.Text<std::uint8_t>(kMaxWhyBytes));
  const bool known = word >= static_cast<std::uint8_t>(PathWord::kOffer) &&
                     word <= static_cast<std::uint8_t>(PathWord::kBroken) && ethernet <= 1 && fault <= 1;
  if (!magic || !known || !reader.ok())
    return Fail(ErrorCode::kProtocol, "expected a setup message for RDMA, got another message");
  return message;
}

}  // namespace rondo::ib
