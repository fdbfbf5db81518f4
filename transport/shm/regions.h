// Memory from Transport::Allocate that ranks of one host read where it lies.
//
//   Regions          of a process: what it has allocated. Any thread.
//   RegionExchange   of an endpoint: which of these its peers have been shown, and what of theirs is mapped here.
//
// A region begins with a page of ours that says whose it is and whether its owner still has it; the user's memory
// follows. Its owner leaves the descriptor at a peer's abstract socket (fd_passing.h) before it tells that peer, by a
// slot of the shared segment, that there is such a region. The peer maps it for reading, once, and lets go of it when
// it next begins to look for regions and its owner has freed it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/net/fd.h"
#include "base/result.h"
#include "transport/shared_segment.h"
#include "transport/shm/connect_request.h"
#include "transport/shm/shared_memory.h"
#include "transport/transport.h"

namespace rondo::shm {

class Regions : public std::enable_shared_from_this<Regions> {
 public:
  // As Transport::Allocate. kResource: no descriptor, or not that much shared memory.
  Result<std::unique_ptr<Memory>> Allocate(std::size_t bytes);
  // The region that all of `memory` lies in; 0: none.
  std::uint32_t Holding(Bytes memory) const;
  std::size_t Count() const;
  bool Has(std::uint32_t region) const;
  // Leaves it at somebody's socket by `send`; false: it is gone, or that failed.
  bool Show(std::uint32_t region, const std::function<bool(int fd)>& send) const;

 private:
  class Allocated;
  struct Region {
    std::uint32_t id = 0;
    std::size_t bytes = 0;
    int fd = -1;
  };
  void Forget(const std::byte* begin);

  mutable std::mutex mutex_;  // guards what follows
  std::uint32_t last_id_ = 0;
  std::map<const std::byte*, Region> by_begin_;
};

class RegionExchange {
 public:
  struct Context {
    std::shared_ptr<const Regions> own;
    Rank rank = 0;
    int world_size = 1;
    std::function<std::string(Rank)> socket_of;
    std::function<std::optional<ConnectRequest>(Rank from, std::uint32_t region)> find_request;
    std::function<void(std::string_view)> step;
  };
  explicit RegionExchange(Context context) : context_(std::move(context)) {}

  std::uint32_t Holding(Bytes memory) const { return context_.own->Holding(memory); }
  void LetGoOfFreed();
  bool Show(std::uint32_t region);
  const std::byte* Find(Rank rank, const MemoryPlace& place, std::uint64_t bytes);

 private:
  const SharedMemory* MapOf(Rank rank, std::uint32_t region);

  const Context context_;
  std::map<std::uint32_t, Rank> shown_;                            // to all ranks below that one
  std::map<std::pair<Rank, std::uint32_t>, SharedMemory> mapped_;  // none inside: it could not be mapped
};

}  // namespace rondo::shm
