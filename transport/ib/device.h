// An opened RDMA device at one of its ports: what all lanes of a transport share. And memory of ours that it knows.
//
// Thread rule: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
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

// Memory that is registered, and its own: page-aligned, zeroed, not seen by children of a fork.
class RegisteredMemory {
 public:
  RegisteredMemory(RegisteredMemory&&) = default;
  RegisteredMemory& operator=(RegisteredMemory&&) = default;

  MutableBytes bytes() const { return {pages_.get(), pages_.get_deleter().bytes}; }
  // What work requests of this side name it by, and what the other side may name it by.
  std::uint32_t local_key() const { return region_->lkey; }
  std::uint32_t remote_key() const { return region_->rkey; }

 private:
  friend class Device;
  RegisteredMemory() = default;

  std::unique_ptr<std::byte[], UnmapPages> pages_;
  VerbsHandle<ibv_mr> region_;  // ends first
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

  // `remote`: the other side may write to it. kResource: it cannot be registered; says how much may be locked and what
  // to do about it.
  Result<RegisteredMemory> Allocate(std::size_t bytes, bool remote) const;

 private:
  Device(const VerbsLibrary& library, ChosenPort chosen) : verbs_(library), chosen_(std::move(chosen)) {}

  const VerbsLibrary verbs_;
  const ChosenPort chosen_;
  VerbsHandle<ibv_context> context_;
  VerbsHandle<ibv_pd> domain_;
};

}  // namespace rondo::ib
