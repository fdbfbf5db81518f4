// Memory of a device (a GPU) from which lanes send without a copy through the host's memory.
//
// This is the seam between a transport and the code that knows devices. That code registers memory by RegisterDevice.
// From then on it may give the bytes to Lane::Write like any other bytes, on lanes whose sends_device_memory() is true.
// No transport ever reads or writes them with the CPU: a pointer to them is only the address that the device's driver
// gave. If a transport refuses, the caller stages: it copies to pinned memory of the host and sends from there, which
// every lane takes.
//
// This is for sending alone. Bytes arrive in the host's memory (Lane::Peek), and are copied to the device from there.
// Lane::ReadInto, Lane::Expect and Transport::Register do not take memory of a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "transport/transport.h"

namespace rondo {

struct DeviceMemory {
  // Addresses of the device's driver, not of the host. The device must have ended its writes there before Lane::Write
  // is called, so that other devices see them, too (CUDA: CU_POINTER_ATTRIBUTE_SYNC_MEMOPS).
  Bytes bytes;
  // The driver's export of this memory; -1: none. The descriptor stays the caller's, who may close it when
  // RegisterDevice has returned: a registration keeps the memory, not the descriptor.
  int dma_buf_fd = -1;
  // The offset of the first byte in the dma-buf. Modulo the page size it equals the address, because an export begins
  // at a page.
  std::uint64_t dma_buf_offset = 0;
  std::string device;  // for messages: "GPU 0 (0000:65:00.0)"
};

// How adapters get access to such memory.
enum class DeviceMemoryWay : std::uint8_t {
  kDmaBuf,      // by the kernel's buffer sharing
  kPeerMemory,  // by address, through a kernel module of the device's driver (nvidia_peermem)
};
std::string_view Name(DeviceMemoryWay way);  // "dma-buf", "peer memory"

// Like Registration, it must end before the memory does, and not while an operation sends from there.
class DeviceRegistration : public Registration {
 public:
  virtual DeviceMemoryWay way() const = 0;
};

// What a transport gives that may send from memory of devices (Transport::device_registrar). Thread rule: any thread.
class DeviceRegistrar {
 public:
  virtual ~DeviceRegistrar() = default;
  // Does the work of the function RegisterDevice below; call that one. REQUIRES: the memory is not empty.
  virtual Result<std::unique_ptr<DeviceRegistration>> RegisterDevice(const DeviceMemory& memory) = 0;
};

// From now on lanes whose sends_device_memory() is true send from it. After each of these errors the caller stages:
//   kUnsupported      this transport, machine or memory has no such way; the message says why for each way, and what
//                     helps
//   kResource         there is a way, but no room for this memory
//   kInvalidArgument  no bytes, or an offset that does not fit the address
Result<std::unique_ptr<DeviceRegistration>> RegisterDevice(Transport& transport, const DeviceMemory& memory);

}  // namespace rondo
