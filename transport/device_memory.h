// Memory of a device (a GPU) from which lanes send without a copy through the host's memory.
//
// The seam between a transport and whoever knows devices: that one makes memory known by RegisterDevice, and from then
// on gives its bytes to Lane::Write, of lanes that say Lane::sends_device_memory(), like any other bytes. No transport
// ever reads or writes them with the CPU: they are named by the address that the device's driver gave them, and that
// is all they are here. Where a transport refuses, the caller stages: it copies to pinned memory of the host and sends
// from there, which every lane takes.
//
// For sending alone. What arrives lies in the host's memory (Lane::Peek), from where it is copied to the device; memory
// of a device is not for Lane::ReadInto, Lane::Expect or Transport::Register.
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
  // By the addresses of the device's driver, which are no memory of the host's. The work of the device that writes
  // there is done before Lane::Write is called, in the eyes of other devices, too (CUDA:
  // CU_POINTER_ATTRIBUTE_SYNC_MEMOPS).
  Bytes bytes;
  // What the driver exported them as; -1: nothing. The descriptor stays the caller's, who may close it when
  // RegisterDevice has returned: what is registered holds on to the memory, not to the descriptor.
  int dma_buf_fd = -1;
  // Of the first byte in it. Where it lies in its page is where the address lies in its page: exported is from the
  // start of a page.
  std::uint64_t dma_buf_offset = 0;
  std::string device;  // for words: "GPU 0 (0000:65:00.0)"
};

// How adapters have been told of such memory.
enum class DeviceMemoryWay : std::uint8_t {
  kDmaBuf,      // by the kernel's buffer sharing
  kPeerMemory,  // by address, which a module of the device's driver knows (nvidia_peermem)
};
std::string_view Name(DeviceMemoryWay way);  // "dma-buf", "peer memory"

// As Registration says: ends before the memory does, and not while an operation sends from there.
class DeviceRegistration : public Registration {
 public:
  virtual DeviceMemoryWay way() const = 0;
};

// Of a transport that may be able to (Transport::device_registrar). Thread rule: any thread.
class DeviceRegistrar {
 public:
  virtual ~DeviceRegistrar() = default;
  // As the function below, which is to be called instead. REQUIRES: not empty memory.
  virtual Result<std::unique_ptr<DeviceRegistration>> RegisterDevice(const DeviceMemory& memory) = 0;
};

// From now on lanes that say sends_device_memory() send from it. Errors, in all of which the caller stages:
//   kUnsupported      this transport, this machine or this memory has no way; says for each way why, and what helps
//   kResource         there is a way, and no room for this memory
//   kInvalidArgument  no bytes, or an offset that does not fit the address
Result<std::unique_ptr<DeviceRegistration>> RegisterDevice(Transport& transport, const DeviceMemory& memory);

}  // namespace rondo
