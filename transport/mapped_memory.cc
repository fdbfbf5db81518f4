#include "transport/mapped_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace rondo {

namespace {

class MappedMemory final : public Memory {
 public:
  explicit MappedMemory(MutableBytes bytes) : bytes_(bytes) {}
  ~MappedMemory() override {
    if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
  }
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  MutableBytes bytes() const override { return bytes_; }

 private:
  const MutableBytes bytes_;
};

}  // namespace

Result<std::unique_ptr<Memory>> MapMemory(std::size_t bytes) {
  if (bytes == 0) return std::make_unique<MappedMemory>(MutableBytes{});
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return Fail(ErrorCode::kOutOfMemory, "cannot allocate {} bytes of memory: {}", bytes, std::strerror(errno));
  return std::make_unique<MappedMemory>(MutableBytes(static_cast<std::byte*>(memory), bytes));
}

}  // namespace rondo
