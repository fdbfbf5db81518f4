#include "transport/shm/regions.h"

#include <unistd.h>

#include <algorithm>
#include <new>
#include <span>

#include "base/check.h"
#include "transport/shm/fd_passing.h"

namespace rondo::shm {
namespace {

constexpr std::uint64_t kRegionMagic = 0x6e6f6967652d6d68;
constexpr std::size_t kRegionHeadBytes = 4096;  // one page, so that the user's memory begins at a page
constexpr std::size_t kMaxBytes = std::size_t{1} << 62;

struct Head {
  std::uint64_t magic;
  std::uint32_t id;
  std::atomic<std::uint32_t> freed;
  std::uint64_t begin;  // the address, in the owner's process, of the memory after this page
};
static_assert(sizeof(Head) <= kRegionHeadBytes);

}  // namespace

class Regions::Allocated final : public Memory {
 public:
  Allocated(std::shared_ptr<Regions> all, SharedMemory memory) : all_(std::move(all)), memory_(std::move(memory)) {}
  ~Allocated() override {
    // In a forked child the region still belongs to the parent, whose peers may read it.
    if (getpid() != owner_pid_) return;
    all_->Forget(bytes().data());
    reinterpret_cast<Head*>(memory_.bytes().data())->freed.store(1, std::memory_order_release);
  }
  MutableBytes bytes() const override { return memory_.bytes().subspan(kRegionHeadBytes); }

 private:
  const int owner_pid_ = getpid();
  const std::shared_ptr<Regions> all_;
  const SharedMemory memory_;
};

Result<std::unique_ptr<Memory>> Regions::Allocate(std::size_t bytes) {
  if (bytes > kMaxBytes) return Fail(ErrorCode::kResource, "{} bytes are more than memory can hold", bytes);
  RONDO_ASSIGN(SharedMemory memory, SharedMemory::Make("memory that ranks share", kRegionHeadBytes + bytes));
  const std::lock_guard lock(mutex_);
  Head* const head = new (memory.bytes().data()) Head{};
  head->magic = kRegionMagic;
  head->id = ++last_id_;
  const std::byte* const begin = memory.bytes().data() + kRegionHeadBytes;
  head->begin = reinterpret_cast<std::uintptr_t>(begin);
  by_begin_[begin] = {.id = last_id_, .bytes = bytes, .fd = memory.fd()};
  return std::make_unique<Allocated>(shared_from_this(), std::move(memory));
}

void Regions::Forget(const std::byte* begin) {
  const std::lock_guard lock(mutex_);
  by_begin_.erase(begin);
}

std::uint32_t Regions::Holding(Bytes memory) const {
  const std::lock_guard lock(mutex_);
  auto after = by_begin_.upper_bound(memory.data());
  if (after == by_begin_.begin()) return 0;
  const auto& [begin, region] = *std::prev(after);
  const auto offset = static_cast<std::size_t>(memory.data() - begin);
  return offset > region.bytes || memory.size() > region.bytes - offset ? 0 : region.id;
}

std::size_t Regions::Count() const {
  const std::lock_guard lock(mutex_);
  return by_begin_.size();
}

bool Regions::Has(std::uint32_t region) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(by_begin_.begin(), by_begin_.end(), [&](const auto& one) { return one.second.id == region; });
}

bool Regions::Show(std::uint32_t region, const std::function<bool(int fd)>& send) const {
  const std::lock_guard lock(mutex_);  // so that the region is not freed during `send`
  for (const auto& [begin, one] : by_begin_)
    if (one.id == region) return send(one.fd);
  return false;
}

bool RegionExchange::Show(std::uint32_t region) {
  Rank& next = shown_[region];
  if (next == context_.world_size) return true;
  const bool all = context_.own->Show(region, [&](int fd) {
    for (; next < context_.world_size; ++next) {
      const Rank peer = next;
      if (peer == context_.rank) continue;
      const Result<Fd> connection = ConnectTo(context_.socket_of(peer));
      if (!connection || !*connection) return false;
      const ConnectMessage message{.kind = ConnectKind::kRegion, .from = context_.rank, .index = region};
      if (!SendWith(connection->get(), std::as_bytes(std::span(&message, 1)), {fd})) return false;
    }
    return true;
  });
  if (!all) return false;
  context_.step("region shown");
  return true;
}

const std::byte* RegionExchange::Find(Rank rank, const MemoryPlace& place, std::uint64_t bytes) {
  const SharedMemory* const memory = MapOf(rank, place.region);
  if (memory == nullptr) return nullptr;
  const std::size_t size = memory->bytes().size() - kRegionHeadBytes;
  const std::uint64_t offset = place.address - reinterpret_cast<const Head*>(memory->bytes().data())->begin;
  if (offset > size || bytes > size - offset) return nullptr;
  return memory->bytes().data() + kRegionHeadBytes + offset;
}

const SharedMemory* RegionExchange::MapOf(Rank rank, std::uint32_t region) {
  auto found = mapped_.find({rank, region});
  if (found == mapped_.end()) {
    auto request = context_.find_request(rank, region);
    if (!request) return nullptr;  // the region's descriptor may still arrive
    auto memory =
        SharedMemory::Map(std::move(request->segment), kRegionHeadBytes, kRegionHeadBytes + kMaxBytes, Access::kRead);
    const auto* const head = memory ? reinterpret_cast<const Head*>(memory->bytes().data()) : nullptr;
    if (head == nullptr || head->magic != kRegionMagic || head->id != region) memory = SharedMemory();
    if (memory) memory->ForgetFd();
    found = mapped_.emplace(std::pair(rank, region), std::move(*memory)).first;
    context_.step("region mapped");
  }
  return found->second.bytes().empty() ? nullptr : &found->second;
}

void RegionExchange::LetGoOfFreed() {
  std::erase_if(mapped_, [](const auto& one) {
    const MutableBytes bytes = one.second.bytes();
    return !bytes.empty() && reinterpret_cast<const Head*>(bytes.data())->freed.load(std::memory_order_acquire) != 0;
  });
  if (shown_.size() > context_.own->Count())
    std::erase_if(shown_, [&](const auto& one) { return !context_.own->Has(one.first); });
}

}  // namespace rondo::shm
