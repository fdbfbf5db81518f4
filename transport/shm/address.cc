#include "transport/shm/address.h"

#include <cstddef>

namespace rondo::shm {
namespace {

constexpr std::string_view kAddressMagic = "shm1";

void Append(std::string& text, std::string_view field) {
  text += static_cast<char>(field.size());
  text += field;
}

}  // namespace

std::string Encode(const ShmAddress& address) {
  std::string text(kAddressMagic);
  Append(text, address.host_id);
  Append(text, address.instance);
  return text + address.base;
}

Result<ShmAddress> DecodeShmAddress(std::string_view text) {
  if (!text.starts_with(kAddressMagic))
    return Fail(ErrorCode::kInvalidArgument, "it is not an address of the shared-memory transport");
  text.remove_prefix(kAddressMagic.size());
  ShmAddress address;
  for (std::string* field : {&address.host_id, &address.instance}) {
    const std::size_t size = text.empty() ? 0 : static_cast<unsigned char>(text.front());
    if (text.size() < 1 + size)
      return Fail(ErrorCode::kInvalidArgument, "it is a truncated address of the shared-memory transport");
    *field = text.substr(1, size);
    text.remove_prefix(1 + size);
  }
  address.base = text;
  return address;
}

bool SameHost(const ShmAddress& a, const ShmAddress& b) { return !a.host_id.empty() && a.host_id == b.host_id; }

}  // namespace rondo::shm
