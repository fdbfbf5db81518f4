// Memory of the devices, and what of the host's they see.
//
// An allocation is a file in memory that is mapped twice: at the address that is handed out, where nobody may read or
// write it, so that the host crashes as it would on a device's; and at its shadow, where the fake does. Addresses of
// freed memory stay reserved, and are handed out again first, as a real driver does: what was remembered by address
// alone is then wrong.
#pragma once

#include <cuda.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace rondo::cuda::fake {

struct Context;

// A file in memory that another process can open by what is in a handle.
struct SharedFile {
  int descriptor = -1;
  ino_t inode = 0;
  std::size_t bytes = 0;

  static std::optional<SharedFile> Make(std::size_t bytes);
  // Of the process `owner`, if it has it still.
  static std::optional<SharedFile> Open(pid_t owner, int descriptor, ino_t inode, std::size_t bytes);
};

struct Memory {
  Memory() = default;
  ~Memory();  // takes the shadow down, closes the file
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  Context* context = nullptr;
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  std::uint64_t id = 0;  // of no other allocation, ever
  bool sync_memops = false;
  std::uint64_t opens = 0;  // of another process's memory; 0: it is our own
  pid_t owner = 0;
  CUdeviceptr owners_address = 0;

  SharedFile file;
  std::size_t offset = 0;       // of the memory in the file
  std::byte* shadow = nullptr;  // of the file
  std::byte* At(CUdeviceptr place) const { return shadow + offset + (place - address); }
};

struct Registration {
  Context* context = nullptr;
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
};

// Where bytes are that a device was asked to touch.
struct Place {
  std::byte* at = nullptr;
  std::shared_ptr<Memory> memory;  // which stays until this goes; null: the host's
};

class MemoryMap {
 public:
  // Null: there is no room for it, or no descriptor.
  std::shared_ptr<Memory> Allocate(Context* context, std::size_t bytes);
  // Takes over the file.
  std::shared_ptr<Memory> Map(Context* context, SharedFile file, std::size_t offset, std::size_t bytes);
  void Remove(const std::shared_ptr<Memory>& memory);

  // The allocation that the address lies in; null: none.
  std::shared_ptr<Memory> Find(CUdeviceptr address) const;
  std::shared_ptr<Memory> Opened(pid_t owner, ino_t inode) const;
  // Whether something is open of what the process has, or had, there.
  bool HasOpened(pid_t owner, CUdeviceptr begin, std::size_t bytes) const;
  // Nothing: not all of the range is one allocation's or one registration's.
  std::optional<Place> Resolve(CUdeviceptr address, std::size_t bytes) const;

  CUresult Register(Context* context, const void* memory, std::size_t bytes);
  CUresult Unregister(const void* memory);
  const Registration* Registered(CUdeviceptr address) const;

  std::size_t registrations() const { return registrations_.size(); }
  const std::map<CUdeviceptr, std::shared_ptr<Memory>>& all() const { return all_; }

 private:
  // Places lie one behind the other, as real drivers give them: what goes beyond its allocation is in the next one.
  CUdeviceptr Reserve(std::size_t bytes);

  std::map<CUdeviceptr, std::shared_ptr<Memory>> all_;
  std::map<CUdeviceptr, Registration> registrations_;
  std::map<std::size_t, std::vector<CUdeviceptr>> reserved_;  // by bytes: places of memory that is gone
  CUdeviceptr room_ = 0;                                      // for more places
  std::size_t room_bytes_ = 0;
  std::uint64_t made_ = 0;
};

}  // namespace rondo::cuda::fake
