// An opened RDMA device with one of its ports, which all lanes of a transport share. This file also defines memory that
// can be registered with the device.
//
// Thread rule: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "transport/device_memory.h"
#include "transport/ib/ports.h"
#include "transport/ib/verbs_library.h"

namespace rondo::ib {

// Frees an object of libibverbs.
template <typename T>
struct VerbsDelete {
  int (*destroy)(T*) = nullptr;
  void operator()(T* thing) const { destroy(thing); }
};
template <typename T>
using VerbsHandle = std::unique_ptr<T, VerbsDelete<T>>;

// Makes a kResource error that says that `what` could not be made. The message has the text of errno.
Error NotMade(std::string_view device, std::string_view what);

struct UnmapPages {
  std::size_t bytes = 0;
  void operator()(std::byte* pages) const;
};

// Memory to register: page-aligned, zeroed, and not mapped in children of a fork.
class Pages {
 public:
  // `bytes` is rounded up to whole pages. kOutOfMemory: the message has the number of bytes.
  static Result<Pages> Make(std::size_t bytes);
  Pages() = default;  // has no memory

  MutableBytes bytes() const { return {pages_.get(), pages_.get_deleter().bytes}; }

 private:
  std::unique_ptr<std::byte[], UnmapPages> pages_;
};

class Device {
 public:
  // kResource: the device refuses to make an object, which the message names. kUnsupported: the device no longer
  // exists.
  static Result<std::shared_ptr<const Device>> Open(const VerbsLibrary& library, ChosenPort chosen);

  const VerbsLibrary& verbs() const { return verbs_; }
  ibv_context* context() const { return context_.get(); }
  ibv_pd* domain() const { return domain_.get(); }
  const Port& port() const { return chosen_.port; }
  const Gid& gid() const { return chosen_.gid; }
  const std::string& reason() const { return chosen_.reason; }

  // Registers memory until the handle is destroyed. Destroy the handle before freeing the memory. `remote`: the other
  // side may write to the memory. kResource: the memory cannot be registered; the message names the limit of locked
  // memory and the remedy.
  Result<VerbsHandle<ibv_mr>> Register(MutableBytes memory, bool remote) const;

  // RegisterDmaBuf and RegisterPeerMemory register memory of another device, such as a GPU, for sending. They use
  // different methods (transport/device_memory.h). kResource: there is no room for the memory. kUnsupported: any other
  // refusal. The message has the text of errno.
  Result<VerbsHandle<ibv_mr>> RegisterDmaBuf(const DeviceMemory& memory) const;
  Result<VerbsHandle<ibv_mr>> RegisterPeerMemory(Bytes memory) const;
  // The errno with which the device refuses every dma-buf; 0: it takes dma-bufs. REQUIRES: libibverbs has
  // ibv_reg_dmabuf_mr.
  int AskDmaBuf() const;

  // The latest fault of the device or of this port that the device has reported: "port down (look at ...)"; "": none.
  std::string LastFault() const;

 private:
  Device(const VerbsLibrary& library, ChosenPort chosen) : verbs_(library), chosen_(std::move(chosen)) {}

  const VerbsLibrary verbs_;
  const ChosenPort chosen_;
  VerbsHandle<ibv_context> context_;
  VerbsHandle<ibv_pd> domain_;

  mutable std::mutex mutex_;  // guards the fields below
  mutable std::string last_fault_;
};

}  // namespace rondo::ib
