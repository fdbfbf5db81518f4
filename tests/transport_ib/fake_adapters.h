// A fake of libibverbs, for adapters that accept memory of a GPU as a dma-buf or by its address, or that refuse it with
// a chosen error. Soft-RoCE cannot do this. The adapters can be opened and can register memory, but they never read the
// memory, and nothing can be sent. Everything else is tested with real verbs (tests/vm).
//
// Only one machine may exist at a time, because functions of libibverbs get no context.
#pragma once

#include <doctest/doctest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/ib/device.h"

namespace rondo::ib {

struct FakeAdapter {
  std::string name;
  int dma_buf_refusal = EOPNOTSUPP;  // the errno for any dma-buf; 0: the adapter supports dma-bufs
  int own_buffer_refusal = 0;        // the errno for an existing dma-buf; 0: the adapter accepts it
  int peer_memory_refusal = EFAULT;  // the errno for GPU memory given by address; 0: the adapter accepts it
};

class FakeMachine {
 public:
  // One request to register memory with an adapter, and its outcome.
  struct Registration {
    std::string adapter;
    bool dma_buf = false;
    std::uint64_t address = 0;
    std::size_t bytes = 0;
    int fd = -1;
    std::uint64_t offset = 0;
    int access = 0;
    std::uint32_t key = 0;
    bool given_back = false;
  };

  explicit FakeMachine(const std::vector<FakeAdapter>& adapters, bool library_has_dma_buf = true) {
    REQUIRE(now_ == nullptr);
    now_ = this;
    for (const FakeAdapter& adapter : adapters) {
      Adapter& made = adapters_.emplace_back();
      made.fake = adapter;
      made.context.async_fd = eventfd(0, EFD_CLOEXEC);
      made.domain.context = &made.context;
      list_.push_back(&made.device);
    }
    list_.push_back(nullptr);
    for (Adapter& adapter : adapters_) {
      ChosenPort port;
      port.port.device = adapter.fake.name;
      auto opened = Device::Open(Library(library_has_dma_buf), std::move(port));
      REQUIRE(opened);
      devices.push_back(*opened);
    }
  }
  ~FakeMachine() {
    devices.clear();
    for (Adapter& adapter : adapters_) close(adapter.context.async_fd);
    now_ = nullptr;
  }
  FakeMachine(const FakeMachine&) = delete;

  std::size_t registered_now() const {
    std::size_t count = 0;
    for (const Registration& one : registrations) count += !one.given_back;
    return count;
  }

  std::vector<std::shared_ptr<const Device>> devices;
  std::deque<Registration> registrations;  // in the order of the calls
  int given_back_twice = 0;
  std::uint64_t refused = 0;  // number of registrations that an adapter refused

 private:
  struct Adapter {
    FakeAdapter fake;
    ibv_device device{};
    ibv_context context{};
    ibv_pd domain{};
  };
  struct Region {
    ibv_mr mr{};
    Registration* registration = nullptr;
  };

  static Adapter& Of(const ibv_pd* domain) {
    for (Adapter& adapter : now_->adapters_)
      if (&adapter.domain == domain) return adapter;
    std::abort();
  }
  static ibv_mr* Answer(const FakeAdapter& adapter, int refusal, Registration registration) {
    if (refusal != 0) {
      ++now_->refused;
      errno = refusal;
      return nullptr;
    }
    registration.adapter = adapter.name;
    registration.key = ++now_->last_key_;
    now_->registrations.push_back(registration);
    Region& region = now_->regions_.emplace_back();
    region.registration = &now_->registrations.back();
    region.mr.lkey = registration.key;
    return &region.mr;
  }

  static VerbsLibrary Library(bool has_dma_buf) {
    VerbsLibrary library;
    library.get_device_list = [](int* count) {
      *count = static_cast<int>(now_->adapters_.size());
      return now_->list_.data();
    };
    library.free_device_list = [](ibv_device**) {};
    library.get_device_name = [](ibv_device* device) -> const char* {
      for (const Adapter& adapter : now_->adapters_)
        if (&adapter.device == device) return adapter.fake.name.c_str();
      return "";
    };
    library.open_device = [](ibv_device* device) -> ibv_context* {
      for (Adapter& adapter : now_->adapters_)
        if (&adapter.device == device) return &adapter.context;
      return nullptr;
    };
    library.close_device = [](ibv_context*) { return 0; };
    library.alloc_pd = [](ibv_context* context) -> ibv_pd* {
      for (Adapter& adapter : now_->adapters_)
        if (&adapter.context == context) return &adapter.domain;
      return nullptr;
    };
    library.dealloc_pd = [](ibv_pd*) { return 0; };
    library.is_fork_initialized = [] { return IBV_FORK_DISABLED; };
    library.reg_mr = [](ibv_pd* domain, void* address, std::size_t bytes, int access) {
      const FakeAdapter& adapter = Of(domain).fake;
      Registration registration;
      registration.address = reinterpret_cast<std::uintptr_t>(address);
      registration.bytes = bytes;
      registration.access = access;
      return Answer(adapter, adapter.peer_memory_refusal, std::move(registration));
    };
    library.dereg_mr = [](ibv_mr* mr) {
      for (Region& region : now_->regions_)
        if (&region.mr == mr) now_->given_back_twice += std::exchange(region.registration->given_back, true);
      return 0;
    };
    if (has_dma_buf)
      library.reg_dmabuf_mr = [](ibv_pd* domain, std::uint64_t offset, std::size_t bytes, std::uint64_t address, int fd,
                                 int access) {
        const FakeAdapter& adapter = Of(domain).fake;
        const int refusal = adapter.dma_buf_refusal != 0 ? adapter.dma_buf_refusal
                            : fd < 0                     ? EBADF
                                                         : adapter.own_buffer_refusal;
        Registration registration;
        registration.dma_buf = true;
        registration.address = address;
        registration.bytes = bytes;
        registration.fd = fd;
        registration.offset = offset;
        registration.access = access;
        return Answer(adapter, refusal, std::move(registration));
      };
    return library;
  }

  static inline FakeMachine* now_ = nullptr;
  std::deque<Adapter> adapters_;
  std::vector<ibv_device*> list_;
  std::deque<Region> regions_;
  std::uint32_t last_key_ = 0;
};

}  // namespace rondo::ib
