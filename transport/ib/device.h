// An opened RDMA device at one of its ports: what all lanes of a transport share. And memory for it to know.
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

// Gives something of libibverbs back.
template <typename T>
struct VerbsDelete {
  int (*destroy)(T*) = nullptr;
  void operator()(T* thing) const { destroy(thing); }
};
template <typename T>
using VerbsHandle = std::unique_ptr<T, VerbsDelete<T>>;

// kResource: `what` could not be made, with errno in words.
Error NotMade(std::string_view device, std::string_view what);

struct UnmapPages {
  std::size_t bytes = 0;
  void operator()(std::byte* pages) const;
};

// Memory to be registered: page-aligned, zeroed, not seen by children of a fork.
class Pages {
 public:
  // `bytes` is rounded up to whole pages. kOutOfMemory names it.
  static Result<Pages> Make(std::size_t bytes);
  Pages() = default;  // none

  MutableBytes bytes() const { return {pages_.get(), pages_.get_deleter().bytes}; }

 private:
  std::unique_ptr<std::byte[], UnmapPages> pages_;
};

class Device {
 public:
  // kResource names what the device refuses; kUnsupported: it is gone.
  static Result<std::shared_ptr<const Device>> Open(const VerbsLibrary& library, ChosenPort chosen);

  const VerbsLibrary& verbs() const { return verbs_; }
  ibv_context* context() const { return context_.get(); }
  ibv_pd* domain() const { return domain_.get(); }
  const Port& port() const { return chosen_.port; }
  const Gid& gid() const { return chosen_.gid; }
  const std::string& reason() const { return chosen_.reason; }

  // Until the handle ends, which must be before the memory does. `remote`: the other side may write to it. kResource:
  // it cannot be registered; says how much may be locked and what to do about it.
  Result<VerbsHandle<ibv_mr>> Register(MutableBytes memory, bool remote) const;

  // Memory of another device, for sending, by either way (transport/device_memory.h). kUnsupported, or kResource where
  // there is no room for it: says errno in words.
  Result<VerbsHandle<ibv_mr>> RegisterDmaBuf(const DeviceMemory& memory) const;
  Result<VerbsHandle<ibv_mr>> RegisterPeerMemory(Bytes memory) const;
  // errno with which it refuses memory as dma-buf, whatever it is; 0: it takes such. REQUIRES: libibverbs can.
  int AskDmaBuf() const;

  // What the device has told last of things gone wrong with it or this port: "port down (look at ...)"; "": nothing.
  std::string Trouble() const;

 private:
  Device(const VerbsLibrary& library, ChosenPort chosen) : verbs_(library), chosen_(std::move(chosen)) {}

  const VerbsLibrary verbs_;
  const ChosenPort chosen_;
  VerbsHandle<ibv_context> context_;
  VerbsHandle<ibv_pd> domain_;

  mutable std::mutex mutex_;  // guards what follows
  mutable std::string trouble_;
};

}  // namespace rondo::ib
