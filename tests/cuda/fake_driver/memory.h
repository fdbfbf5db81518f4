// Memory of the devices, and the memory of the host that devices can use.
//
// An allocation is a file in memory with two mappings. The first is at the address that the caller gets: it cannot be
// read or written, so that the host crashes as it would with a device's memory. The second, the shadow, is for the fake
// driver. Addresses of freed memory stay reserved and are reused first, as in a real driver: code that remembers memory
// only by its address then fails.
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

// A file in memory that another process can open with the contents of a handle.
struct SharedFile {
  int descriptor = -1;
  ino_t inode = 0;
  std::size_t bytes = 0;

  static std::optional<SharedFile> Make(std::size_t bytes);
  // Opens the file of the process `owner`, if that process still has it.
  static std::optional<SharedFile> Open(pid_t owner, int descriptor, ino_t inode, std::size_t bytes);
};

struct Memory {
  Memory() = default;
  ~Memory();  // unmaps the shadow and closes the file
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  Context* context = nullptr;
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  std::uint64_t id = 0;  // never used for another allocation
  bool sync_memops = false;
  // How many times this process has opened this memory of another process; 0: it is this process's own memory.
  std::uint64_t opens = 0;
  pid_t owner = 0;
  CUdeviceptr owners_address = 0;

  SharedFile file;
  std::size_t offset = 0;       // where the memory begins in the file
  std::byte* shadow = nullptr;  // where the file is mapped
  std::byte* At(CUdeviceptr place) const { return shadow + offset + (place - address); }
};

struct Registration {
  Context* context = nullptr;
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
};

// The location of bytes that a device was asked to touch.
struct Place {
  std::byte* at = nullptr;
  std::shared_ptr<Memory> memory;  // keeps the memory alive; null: the host's memory
};

class MemoryMap {
 public:
  // Allocates memory of the context's device. Null: no memory or no descriptor is left.
  std::shared_ptr<Memory> Allocate(Context* context, std::size_t bytes);
  // Takes ownership of the file.
  std::shared_ptr<Memory> Map(Context* context, SharedFile file, std::size_t offset, std::size_t bytes);
  void Remove(const std::shared_ptr<Memory>& memory);

  // The allocation that contains the address; null: none.
  std::shared_ptr<Memory> Find(CUdeviceptr address) const;
  std::shared_ptr<Memory> Opened(pid_t owner, ino_t inode) const;
  // Whether this process has opened memory that the owner has, or had, in the range.
  bool HasOpened(pid_t owner, CUdeviceptr begin, std::size_t bytes) const;
  // Finds the memory that contains the range. Empty: the range is not within one allocation or one registration.
  std::optional<Place> Resolve(CUdeviceptr address, std::size_t bytes) const;

  CUresult Register(Context* context, const void* memory, std::size_t bytes);
  CUresult Unregister(const void* memory);
  const Registration* Registered(CUdeviceptr address) const;

  std::size_t registrations() const { return registrations_.size(); }
  const std::map<CUdeviceptr, std::shared_ptr<Memory>>& all() const { return all_; }

 private:
  // Reserved addresses follow each other without gaps, as those of real drivers do: an access beyond an allocation
  // reaches the next one.
  CUdeviceptr Reserve(std::size_t bytes);

  std::map<CUdeviceptr, std::shared_ptr<Memory>> all_;
  std::map<CUdeviceptr, Registration> registrations_;
  std::map<std::size_t, std::vector<CUdeviceptr>> reserved_;  // freed addresses, by number of bytes
  CUdeviceptr room_ = 0;                                      // address space for more allocations
  std::size_t room_bytes_ = 0;
  std::uint64_t made_ = 0;
};

}  // namespace rondo::cuda::fake
