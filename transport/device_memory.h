// Memory of a device (a GPU) that lanes send without a copy through host memory.
//
// This is the interface between a transport and the code for GPUs. That code registers GPU memory by RegisterDevice.
// Afterwards it may pass the bytes to Lane::Write like any other bytes, on lanes whose sends_device_memory() is true.
// No transport ever reads or writes such bytes with the CPU: their pointer is only an address from the GPU's driver. If
// a transport refuses to register the memory, the caller must stage: it copies to pinned host memory, which every lane
// takes, and sends from there.
//
// This interface is for sending only. Received bytes arrive in host memory (Lane::Peek), and are copied to the device
// from there. Lane::ReadInto, Lane::Expect and Transport::Register do not take memory of a device.
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
  // The memory. Its addresses are those of the device's driver, and the host cannot access them. The device must have
  // completed its writes to the memory before Lane::Write is called, so that other devices see them (CUDA:
  // CU_POINTER_ATTRIBUTE_SYNC_MEMOPS).
  Bytes bytes;
  // The dma-buf descriptor that the driver exported for this memory; -1: there is none. The caller owns the descriptor
  // and may close it after RegisterDevice has returned, because a registration does not need it.
  int dma_buf_fd = -1;
  // The offset of the first byte of `bytes` in the dma-buf. Modulo the page size it equals the byte's address, because
  // an export begins at a page.
  std::uint64_t dma_buf_offset = 0;
  std::string device;  // the device's name in messages: "GPU 0 (0000:65:00.0)"
};

// How RDMA adapters get access to memory of a device.
enum class DeviceMemoryWay : std::uint8_t {
  kDmaBuf,      // the adapter imports a dma-buf that the device's driver exported
  kPeerMemory,  // the adapter gets the address; a module of the device's driver (nvidia_peermem) resolves it
};
std::string_view Name(DeviceMemoryWay way);  // "dma-buf", "peer memory"

// Keeps memory of a device registered until this object is destroyed. The destructor must run before the memory is
// freed, and not while an operation sends from that memory.
class DeviceRegistration : public Registration {
 public:
  virtual DeviceMemoryWay way() const = 0;
};

// The interface of a transport that can send from memory of devices (Transport::device_registrar). Thread rule: any
// thread.
class DeviceRegistrar {
 public:
  virtual ~DeviceRegistrar() = default;
  // Implements the function RegisterDevice below; callers must use that function. REQUIRES: the memory is not empty.
  virtual Result<std::unique_ptr<DeviceRegistration>> RegisterDevice(const DeviceMemory& memory) = 0;
};

// Registers `memory` with the transport, so that lanes whose sends_device_memory() is true can send from it. After any
// of these errors the caller must copy the bytes to pinned host memory and send from there:
//   kUnsupported      no method of registration works for this transport, machine or memory; the message gives the
//                     reason for each method, and a remedy
//   kResource         a method works, but has no room for this memory
//   kInvalidArgument  `bytes` is empty, or dma_buf_offset differs from the address modulo the page size
Result<std::unique_ptr<DeviceRegistration>> RegisterDevice(Transport& transport, const DeviceMemory& memory);

}  // namespace rondo
