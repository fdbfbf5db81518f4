// libibverbs, loaded at run time. A machine without it runs everything except transport/ib. The functions that
// <infiniband/verbs.h> defines inline (posting, polling) use an opened device, so they are not members of VerbsLibrary.
//
// Thread rule: any thread, after the library is loaded.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace rondo::ib {

// Functions of libibverbs without their prefix; see the manual pages of rdma-core.
struct VerbsLibrary {
  ibv_device** (*get_device_list)(int* count) = nullptr;
  void (*free_device_list)(ibv_device** list) = nullptr;
  const char* (*get_device_name)(ibv_device* device) = nullptr;
  ibv_context* (*open_device)(ibv_device* device) = nullptr;
  int (*close_device)(ibv_context* context) = nullptr;
  int (*query_device)(ibv_context* context, ibv_device_attr* attributes) = nullptr;
  ssize_t (*query_gid_table)(ibv_context* context, ibv_gid_entry* entries, std::size_t most, std::uint32_t flags,
                             std::size_t entry_bytes) = nullptr;
  int (*get_async_event)(ibv_context* context, ibv_async_event* event) = nullptr;
  void (*ack_async_event)(ibv_async_event* event) = nullptr;
  const char* (*port_state_str)(ibv_port_state state) = nullptr;
  ibv_pd* (*alloc_pd)(ibv_context* context) = nullptr;
  int (*dealloc_pd)(ibv_pd* domain) = nullptr;
  ibv_mr* (*reg_mr)(ibv_pd* domain, void* address, std::size_t bytes, int access) = nullptr;
  int (*dereg_mr)(ibv_mr* region) = nullptr;
  // Null: the library is too old (before rdma-core 34).
  ibv_mr* (*reg_dmabuf_mr)(ibv_pd* domain, std::uint64_t offset, std::size_t bytes, std::uint64_t device_address,
                           int fd, int access) = nullptr;
  ibv_comp_channel* (*create_comp_channel)(ibv_context* context) = nullptr;
  int (*destroy_comp_channel)(ibv_comp_channel* channel) = nullptr;
  ibv_cq* (*create_cq)(ibv_context* context, int entries, void* own, ibv_comp_channel* channel, int vector) = nullptr;
  int (*destroy_cq)(ibv_cq* queue) = nullptr;
  int (*get_cq_event)(ibv_comp_channel* channel, ibv_cq** queue, void** own) = nullptr;
  void (*ack_cq_events)(ibv_cq* queue, unsigned count) = nullptr;
  ibv_qp* (*create_qp)(ibv_pd* domain, ibv_qp_init_attr* attributes) = nullptr;
  int (*destroy_qp)(ibv_qp* pair) = nullptr;
  int (*modify_qp)(ibv_qp* pair, ibv_qp_attr* attributes, int mask) = nullptr;

  // Whether devices still use the right pages of registered memory after a fork. This is so if the kernel copies such
  // pages for the child at once (5.12 and newer), or if the user has enabled libibverbs' fork support.
  bool forks_safely() const { return is_fork_initialized != nullptr && is_fork_initialized() != IBV_FORK_DISABLED; }

  // Returns 0 or an errno. Newer providers fill all attributes; older ones fill only those of their version.
  int QueryPort(ibv_context* context, std::uint8_t port, ibv_port_attr& attributes) const;

  int (*query_port)(ibv_context* context, std::uint8_t port, void* attributes) = nullptr;  // used by QueryPort
  ibv_fork_status (*is_fork_initialized)() = nullptr;  // used by forks_safely; null: the library is too old
};

// `name`: "" means libibverbs.so.1. kUnsupported: the message says why the library could not be loaded, or which
// function is missing. A loaded library stays loaded.
Result<VerbsLibrary> LoadVerbs(const std::string& name = "");

}  // namespace rondo::ib
