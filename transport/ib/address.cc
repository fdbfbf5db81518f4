#include "transport/ib/address.h"

#include "base/byte_codec.h"
#include "base/printable.h"

namespace rondo::ib {
namespace {

constexpr std::string_view kAddressMagic = "ib01";
constexpr std::size_t kMaxFieldBytes = 255;

}  // namespace

std::string Encode(const IbAddress& address) {
  ByteWriter writer;
  writer.Raw(kAddressMagic);
  writer.Text<std::uint8_t>(std::string_view(address.host_id).substr(0, kMaxFieldBytes));
  writer.Text<std::uint8_t>(std::string_view(address.port).substr(0, kMaxFieldBytes));
  writer.Raw(address.base);
  return writer.Take();
}

Result<IbAddress> DecodeIbAddress(std::string_view text) {
  ByteReader reader(text);
  if (reader.Raw(kAddressMagic.size()) != kAddressMagic)
    return Fail(ErrorCode::kInvalidArgument, "it is not an RDMA address");
  IbAddress address;
  address.host_id = reader.Text<std::uint8_t>();
  address.port = Printable(reader.Text<std::uint8_t>());
  address.base = reader.Raw(reader.remaining());
  if (!reader.ok()) return Fail(ErrorCode::kInvalidArgument, "it is a truncated RDMA address");
  return address;
}

}  // namespace rondo::ib
