// Memory and events of other processes. A handle names a file that the exporting process has open, so the handle is
// valid as long as that process keeps the file open.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/cuda/fake_driver/shared_event.h"
#include "tests/cuda/fake_driver/state.h"

namespace rondo::cuda::fake {
namespace {

enum class What : std::uint32_t { kMemory = 0x46414b4d, kEvent = 0x46414b45 };

struct Handle {
  What what = What::kMemory;
  pid_t owner = 0;
  std::int32_t descriptor = -1;
  std::int32_t device = 0;  // ordinal among the machine's devices
  std::uint64_t inode = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t address = 0;  // address in the exporting process
};
static_assert(sizeof(Handle) <= CU_IPC_HANDLE_SIZE);

Handle Describe(const Call& call, What what, const SharedFile& file, const Context& context) {
  return {.what = what,
          .owner = getpid(),
          .descriptor = file.descriptor,
          .device = call.state.settings.devices.at(static_cast<std::size_t>(context.device)),
          .inode = file.inode,
          .file_bytes = file.bytes};
}

template <class Cuda>
void Write(Cuda* to, const Handle& handle) {
  std::memset(to, 0, sizeof *to);
  std::memcpy(to->reserved, &handle, sizeof handle);
}

// Opens the memory or event that the handle names.
template <class Cuda>
CUresult Open(const Cuda& from, What what, Handle& handle, std::optional<SharedFile>& file) {
  std::memcpy(&handle, from.reserved, sizeof handle);
  if (handle.what != what) return CUDA_ERROR_INVALID_VALUE;
  if (handle.owner == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
  file = SharedFile::Open(handle.owner, handle.descriptor, handle.inode, handle.file_bytes);
  return file ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace
}  // namespace rondo::cuda::fake

using namespace rondo::cuda::fake;  // NOLINT(google-build-using-namespace): the functions below are the driver's

CUresult cuIpcGetMemHandle(CUipcMemHandle* to, CUdeviceptr address) {
  return Do("IpcGetMemHandle", Needs::kContext, [&](Call& call) {
    const auto memory = call.state.memory.Find(address);
    if (to == nullptr || memory == nullptr || memory->opens > 0 || !call.state.settings.ipc_capable)
      return CUDA_ERROR_INVALID_VALUE;
    Handle handle = Describe(call, What::kMemory, memory->file, *memory->context);
    handle.offset = memory->offset;
    handle.bytes = memory->bytes;
    handle.address = memory->address;
    Write(to, handle);
    return CUDA_SUCCESS;
  });
}

CUresult cuIpcOpenMemHandle(CUdeviceptr* address, CUipcMemHandle from, unsigned int flags) {
  return Do("IpcOpenMemHandle", Needs::kContext, [&](Call& call) {
    if (address == nullptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
    Handle handle;
    std::optional<SharedFile> file;
    if (const CUresult opened = Open(from, What::kMemory, handle, file); opened != CUDA_SUCCESS) return opened;
    if (const auto known = call.state.memory.Opened(handle.owner, file->inode)) {
      close(file->descriptor);
      if (known->context != call.context) return CUDA_ERROR_ALREADY_MAPPED;
      ++known->opens;
      *address = known->address;
      return CUDA_SUCCESS;
    }
    if (call.state.memory.HasOpened(handle.owner, handle.address, handle.bytes)) {
      close(file->descriptor);
      return CUDA_ERROR_ALREADY_MAPPED;
    }
    const auto memory = call.state.memory.Map(call.context, *file, handle.offset, handle.bytes);
    if (memory == nullptr) return CUDA_ERROR_MAP_FAILED;
    memory->owner = handle.owner;
    memory->owners_address = handle.address;
    memory->opens = 1;
    *address = memory->address;
    return CUDA_SUCCESS;
  });
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  return Do("IpcCloseMemHandle", Needs::kGiveBack, [&](Call& call) {
    const auto memory = call.state.memory.Find(address);
    if (memory == nullptr || memory->address != address || memory->opens == 0) return CUDA_ERROR_INVALID_VALUE;
    if (memory->opens == 1) call.state.memory.Remove(memory);
    --memory->opens;
    return CUDA_SUCCESS;
  });
}

CUresult cuIpcGetEventHandle(CUipcEventHandle* to, CUevent handle) {
  return Do("IpcGetEventHandle", Needs::kContext, [&](Call& call) {
    const auto found = call.state.events.find(handle);
    if (found == call.state.events.end()) return CUDA_ERROR_INVALID_HANDLE;
    const Event& event = *found->second;
    if (to == nullptr || event.counts == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Write(to, Describe(call, What::kEvent, event.file, *event.context));
    return CUDA_SUCCESS;
  });
}

CUresult cuIpcOpenEventHandle(CUevent* event, CUipcEventHandle from) {
  return Do("IpcOpenEventHandle", Needs::kContext, [&](Call& call) {
    if (event == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Handle handle;
    std::optional<SharedFile> file;
    if (const CUresult opened = Open(from, What::kEvent, handle, file); opened != CUDA_SUCCESS) return opened;
    auto made = std::make_shared<Event>();
    made->context = call.context;
    if (!ShareCounts(*made, *file)) return CUDA_ERROR_MAP_FAILED;
    *event = Keep(call.state, std::move(made));
    return CUDA_SUCCESS;
  });
}
