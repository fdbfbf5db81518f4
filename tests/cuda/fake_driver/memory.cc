#include "tests/cuda/fake_driver/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) static_cast<void>(address)
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) static_cast<void>(address)
#endif

namespace rondo::cuda::fake {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kAlignment = 256;
constexpr std::size_t kRoomBytes = std::size_t{256} << 20;

std::size_t RoundedUp(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

void* MapNothing(std::size_t bytes) {
  void* const at = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at == MAP_FAILED ? nullptr : at;
}

bool MapAt(void* at, const SharedFile& file, int protection) {
  return mmap(at, file.bytes, protection, MAP_SHARED | MAP_FIXED, file.descriptor, 0) != MAP_FAILED;
}

std::optional<SharedFile> Described(int descriptor) {
  struct stat facts = {};
  if (descriptor < 0) return std::nullopt;
  if (fstat(descriptor, &facts) != 0) {
    close(descriptor);
    return std::nullopt;
  }
  return SharedFile{.descriptor = descriptor, .inode = facts.st_ino, .bytes = static_cast<std::size_t>(facts.st_size)};
}

}  // namespace

std::optional<SharedFile> SharedFile::Make(std::size_t bytes) {
  const int descriptor = memfd_create("fake_cuda", MFD_CLOEXEC);
  if (descriptor >= 0 && ftruncate(descriptor, static_cast<off_t>(RoundedUp(bytes))) != 0) {
    close(descriptor);
    return std::nullopt;
  }
  return Described(descriptor);
}

std::optional<SharedFile> SharedFile::Open(pid_t owner, int descriptor, ino_t inode, std::size_t bytes) {
  const std::string path = "/proc/" + std::to_string(owner) + "/fd/" + std::to_string(descriptor);
  // By now the descriptor may refer to another file, and opening that file could block.
  struct stat facts = {};
  if (stat(path.c_str(), &facts) != 0 || facts.st_ino != inode) return std::nullopt;
  auto file = Described(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (file && (file->inode != inode || file->bytes != bytes)) {
    close(file->descriptor);
    return std::nullopt;
  }
  return file;
}

Memory::~Memory() {
  if (shadow != nullptr) {
    ASAN_UNPOISON_MEMORY_REGION(shadow, file.bytes);
    munmap(shadow - kPage, file.bytes + 2 * kPage);
  }
  if (file.descriptor >= 0) close(file.descriptor);
}

CUdeviceptr MemoryMap::Reserve(std::size_t bytes) {
  if (auto& places = reserved_[bytes]; !places.empty()) {
    const CUdeviceptr place = places.back();
    places.pop_back();
    return place;
  }
  if (bytes > room_bytes_) {
    const std::size_t more = std::max(bytes, kRoomBytes);
    room_ = reinterpret_cast<CUdeviceptr>(MapNothing(more));
    room_bytes_ = room_ == 0 ? 0 : more;
    if (room_ == 0) return 0;
  }
  room_bytes_ -= bytes;
  return std::exchange(room_, room_ + bytes);
}

std::shared_ptr<Memory> MemoryMap::Map(Context* context, SharedFile file, std::size_t offset, std::size_t bytes) {
  auto memory = std::make_shared<Memory>();
  memory->file = file;
  // One inaccessible page precedes the shadow, another follows it.
  auto* const around = static_cast<std::byte*>(MapNothing(file.bytes + 2 * kPage));
  if (around == nullptr) return nullptr;
  memory->shadow = around + kPage;
  if (!MapAt(memory->shadow, file, PROT_READ | PROT_WRITE)) return nullptr;
  const CUdeviceptr place = Reserve(file.bytes);
  if (place == 0) return nullptr;
  if (!MapAt(reinterpret_cast<void*>(place), file, PROT_NONE)) {
    reserved_[file.bytes].push_back(place);
    return nullptr;
  }
  ASAN_POISON_MEMORY_REGION(memory->shadow, offset);
  ASAN_POISON_MEMORY_REGION(memory->shadow + offset + bytes, file.bytes - offset - bytes);
  memory->context = context;
  memory->address = place + offset;
  memory->offset = offset;
  memory->bytes = bytes;
  memory->id = ++made_;
  all_[memory->address] = memory;
  return memory;
}

std::shared_ptr<Memory> MemoryMap::Allocate(Context* context, std::size_t bytes) {
  // A small allocation starts anywhere in a page, because a real driver cuts it from a larger block.
  const std::size_t offset = bytes < (1u << 20) ? (made_ % 16) * kAlignment : 0;
  const auto file = SharedFile::Make(offset + bytes);
  return file ? Map(context, *file, offset, bytes) : nullptr;
}

void MemoryMap::Remove(const std::shared_ptr<Memory>& memory) {
  void* const place = reinterpret_cast<void*>(memory->address - memory->offset);
  const std::size_t bytes = memory->file.bytes;
  constexpr int kReserves = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  RONDO_CHECK(mmap(place, bytes, PROT_NONE, kReserves, -1, 0) != MAP_FAILED);
  reserved_[bytes].push_back(memory->address - memory->offset);
  all_.erase(memory->address);
}

std::shared_ptr<Memory> MemoryMap::Find(CUdeviceptr address) const {
  auto found = all_.upper_bound(address);
  if (found == all_.begin()) return nullptr;
  --found;
  return address - found->first < found->second->bytes ? found->second : nullptr;
}

std::shared_ptr<Memory> MemoryMap::Opened(pid_t owner, ino_t inode) const {
  for (const auto& [address, memory] : all_)
    if (memory->opens > 0 && memory->owner == owner && memory->file.inode == inode) return memory;
  return nullptr;
}

bool MemoryMap::HasOpened(pid_t owner, CUdeviceptr begin, std::size_t bytes) const {
  return std::any_of(all_.begin(), all_.end(), [&](const auto& one) {
    const Memory& memory = *one.second;
    return memory.opens > 0 && memory.owner == owner && memory.owners_address < begin + bytes &&
           begin < memory.owners_address + memory.bytes;
  });
}

std::optional<Place> MemoryMap::Resolve(CUdeviceptr address, std::size_t bytes) const {
  if (auto memory = Find(address)) {
    if (bytes > memory->bytes - (address - memory->address)) return std::nullopt;
    std::byte* const at = memory->At(address);
    return Place{.at = at, .memory = std::move(memory)};
  }
  const Registration* const registered = Registered(address);
  if (registered == nullptr || bytes > registered->bytes - (address - registered->address)) return std::nullopt;
  return Place{.at = reinterpret_cast<std::byte*>(address), .memory = nullptr};
}

CUresult MemoryMap::Register(Context* context, const void* memory, std::size_t bytes) {
  const auto address = reinterpret_cast<CUdeviceptr>(memory);
  if (address == 0 || bytes == 0 || Find(address) != nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUdeviceptr page = address / kPage * kPage;
  std::vector<unsigned char> resident((address + bytes - page + kPage - 1) / kPage);
  if (mincore(reinterpret_cast<void*>(page), address + bytes - page, resident.data()) != 0)
    return CUDA_ERROR_INVALID_VALUE;  // part of the range is not mapped
  const auto next = registrations_.lower_bound(address);
  if (next != registrations_.end() && next->first < address + bytes) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  if (Registered(address) != nullptr) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  registrations_[address] = {.context = context, .address = address, .bytes = bytes};
  return CUDA_SUCCESS;
}

CUresult MemoryMap::Unregister(const void* memory) {
  return registrations_.erase(reinterpret_cast<CUdeviceptr>(memory)) == 1 ? CUDA_SUCCESS
                                                                          : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

const Registration* MemoryMap::Registered(CUdeviceptr address) const {
  auto found = registrations_.upper_bound(address);
  if (found == registrations_.begin()) return nullptr;
  --found;
  return address - found->first < found->second.bytes ? &found->second : nullptr;
}

}  // namespace rondo::cuda::fake
