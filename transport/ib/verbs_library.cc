#include "transport/ib/verbs_library.h"

#include <dlfcn.h>

#include <cstring>
#include <type_traits>

namespace rondo::ib {

int VerbsLibrary::QueryPort(ibv_context* context, std::uint8_t port, ibv_port_attr& attributes) const {
  std::memset(&attributes, 0, sizeof attributes);
  if (verbs_context* const own = verbs_get_ctx_op(context, query_port); own != nullptr)
    return own->query_port(context, port, &attributes, sizeof attributes);
  return query_port(context, port, &attributes);
}

Result<VerbsLibrary> LoadVerbs(const std::string& name) {
  const std::string file = name.empty() ? "libibverbs.so.1" : name;
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return Fail(ErrorCode::kUnsupported, "no RDMA: libibverbs cannot be loaded ({}); Debian's package is libibverbs1",
                dlerror());
  VerbsLibrary library;
  const char* missing = nullptr;
  const auto find = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, symbol));
    if (function == nullptr) missing = symbol;
  };
  find(library.get_device_list, "ibv_get_device_list");
  find(library.free_device_list, "ibv_free_device_list");
  find(library.get_device_name, "ibv_get_device_name");
  find(library.open_device, "ibv_open_device");
  find(library.close_device, "ibv_close_device");
  find(library.query_device, "ibv_query_device");
  find(library.query_gid_table, "_ibv_query_gid_table");
  find(library.get_async_event, "ibv_get_async_event");
  find(library.ack_async_event, "ibv_ack_async_event");
  find(library.port_state_str, "ibv_port_state_str");
  find(library.query_port, "ibv_query_port");
  find(library.alloc_pd, "ibv_alloc_pd");
  find(library.dealloc_pd, "ibv_dealloc_pd");
  find(library.reg_mr, "ibv_reg_mr");
  find(library.dereg_mr, "ibv_dereg_mr");
  find(library.create_comp_channel, "ibv_create_comp_channel");
  find(library.destroy_comp_channel, "ibv_destroy_comp_channel");
  find(library.create_cq, "ibv_create_cq");
  find(library.destroy_cq, "ibv_destroy_cq");
  find(library.get_cq_event, "ibv_get_cq_event");
  find(library.ack_cq_events, "ibv_ack_cq_events");
  find(library.create_qp, "ibv_create_qp");
  find(library.destroy_qp, "ibv_destroy_qp");
  find(library.modify_qp, "ibv_modify_qp");
  const char* const needed = missing;
  find(library.is_fork_initialized, "ibv_is_fork_initialized");
  find(library.reg_dmabuf_mr, "ibv_reg_dmabuf_mr");
  missing = needed;
  if (missing == nullptr) return library;
  dlclose(handle);
  return Fail(ErrorCode::kUnsupported, "no RDMA: {} has no function {}; rdma-core 32 or newer is needed", file,
              missing);
}

}  // namespace rondo::ib
