// libibverbs, loaded at run time: a machine without it runs everything but transport/ib. What <infiniband/verbs.h>
// defines inline (posting, polling) calls through an opened device and needs nothing from here.
//
// Thread rule: any thread, once loaded.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace rondo::ib {

// Functions by the names of libibverbs without their prefix; the manual pages of rdma-core say what they do.
struct VerbsLibrary {
  ibv_device** (*get_device_list)(int* count) = nullptr;
  void (*free_device_list)(ibv_device** list) = nullptr;
  const char* (*get_device_name)(ibv_device* device) = nullptr;
  ibv_context* (*open_device)(ibv_device* device) = nullptr;
  int (*close_device)(ibv_context* context) = nullptr;
  int (*query_device)(ibv_context* context, ibv_device_attr* attributes) = nullptr;
  ssize_t (*query_gid_table)(ibv_context* context, ibv_gid_entry* entries, std::size_t most, std::uint32_t flags,
                             std::size_t entry_bytes) = nullptr;
  const char* (*port_state_str)(ibv_port_state state) = nullptr;

  // errno, or 0. Newer providers answer in full, older ones by the library.
  int QueryPort(ibv_context* context, std::uint8_t port, ibv_port_attr& attributes) const;

  int (*query_port)(ibv_context* context, std::uint8_t port, void* attributes) = nullptr;  // of QueryPort
};

// `name` "" is libibverbs.so.1. kUnsupported says why it could not be loaded, or what it lacks. It stays loaded.
Result<VerbsLibrary> LoadVerbs(const std::string& name = "");

}  // namespace rondo::ib
