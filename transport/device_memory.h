// Memory of a device (a GPU) from which lanes send without a copy through the host's memory.
//
// This is the interface between a transport and the code for devices. That code registers memory by RegisterDevice.
// From then on it may give the bytes to Lane::Write like any other bytes, on lanes whose sends_device_memory() is true.
// No transport ever reads or writes such bytes with the CPU: their pointer is only an address from the device's driver.
// If a transport refuses, the caller stages: it copies to pinned host memory, which every lane takes, and sends from
// there.
//
// This is for sending only. Bytes arrive in the host's memory (Lane::Peek), and are copied to the device from there.
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
  // The driver's export of this memory; -1: none. The caller owns the descriptor and may close it when RegisterDevice
  // has returned: a registration keeps the memory, not the descriptor.
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

// Keeps memory of a device registered until its destructor. The destructor must run before the memory is freed, and not
// while an operation sends from that memory.
class DeviceRegistration : public Registration {
 public:
  virtual DeviceMemoryWay way() const = 0;
};

// A transport that may send from memory of devices provides this (Transport::device_registrar). Thread rule: any
// thread.
class DeviceRegistrar {
 public:
  virtual ~DeviceRegistrar() = default;
  // Does the work of the function RegisterDevice below; call that one. REQUIRES: the memory is not empty.
  virtual Result<std::unique_ptr<DeviceRegistration>> RegisterDevice(const DeviceMemory& memory) = 0;
};

// Registers `memory` with the transport. From then on lanes whose sends_device_memory() is true send from it. After
// each of these errors the caller stages:
//   kUnsupported      no way works for this transport, machine or memory; the message says why for each way, and what
//                     helps
//   kResource         a way exists, but has no room for this memory
//   kInvalidArgument  `bytes` is empty, or the offset does not fit the address
Result<std::unique_ptr<DeviceRegistration>> RegisterDevice(Transport& transport, const DeviceMemory& memory);

}  // namespace rondo
