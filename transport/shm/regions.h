// Memory from Transport::Allocate that ranks of one host map into each other's processes.
//
//   Regions          one per process: the memory that it has allocated. Any thread may use it.
//   RegionExchange   one per endpoint: which regions were passed to its peers, and which of the peers' regions are
//                    mapped here.
//
// A region begins with a page that names its owner and says whether the owner has freed the region. The user's memory
// follows. First the owner sends the region's descriptor to a peer's abstract socket (fd_passing.h). Then it names the
// region to that peer in a slot of the shared segment. The peer maps the region once, for reading. After the owner has
// freed the region, the peer unmaps it in its next LetGoOfFreed.
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
  // Like Transport::Allocate. kResource: no descriptor is left, or less than `bytes` of shared memory.
  Result<std::unique_ptr<Memory>> Allocate(std::size_t bytes);
  // The number of the region that contains all of `memory`; 0: there is none.
  std::uint32_t Holding(Bytes memory) const;
  std::size_t Count() const;
  bool Has(std::uint32_t region) const;
  // Passes the region's descriptor to a peer by `send`. False: the region was freed, or `send` failed.
  bool Show(std::uint32_t region, const std::function<bool(int fd)>& send) const;

 private:
  class Allocated;
  struct Region {
    std::uint32_t id = 0;
    std::size_t bytes = 0;
    int fd = -1;
  };
  void Forget(const std::byte* begin);

  mutable std::mutex mutex_;  // guards the fields below
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
  // For each region: the next rank that must receive it. All lower ranks have received it.
  std::map<std::uint32_t, Rank> shown_;
  // An entry without bytes: the region could not be mapped.
  std::map<std::pair<Rank, std::uint32_t>, SharedMemory> mapped_;
};

}  // namespace rondo::shm
