#include "transport/shm/shm.h"

#include <fmt/core.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <utility>

#include "transport/shm/address.h"
#include "transport/shm/endpoint.h"
#include "transport/shm/fd_passing.h"
#include "transport/shm/regions.h"

namespace rondo {
namespace shm {
namespace {

constexpr int kBacklog = 1024;
// Smaller memory is not made a region, because each region takes a descriptor.
constexpr std::size_t kLeastRegionBytes = 64 * 1024;

class ShmTransport final : public Transport {
 public:
  ShmTransport(std::shared_ptr<Transport> base, ShmOptions options, std::string instance)
      : base_(std::move(base)),
        options_(std::move(options)),
        instance_(std::move(instance)),
        capabilities_{.late_release = base_->capabilities().late_release,
                      .moves_on_cores = base_->capabilities().moves_on_cores} {}

  std::string_view name() const override { return "shm"; }
  const Capabilities& capabilities() const override { return capabilities_; }
  std::string Address() const override {
    return Encode(ShmAddress{.host_id = options_.host_id, .instance = instance_, .base = base_->Address()});
  }
  std::string DescribeAddress() const override {
    return fmt::format("shm: {}, otherwise\n{}",
                       options_.host_id.empty() ? "this host is not known" : "for ranks of this host",
                       base_->DescribeAddress());
  }

  Result<std::unique_ptr<Endpoint>> OpenEndpoint(const EndpointConfig& config) override {
    EndpointSetUp set_up{.config = config,
                         .peers = {},
                         .here = {},
                         .ring_bytes = options_.ring_bytes,
                         .watch_steps = options_.watch_steps,
                         .regions = regions_};
    EndpointConfig of_base = config;
    const auto own = static_cast<std::size_t>(config.rank);
    for (std::size_t rank = 0; rank < config.addresses.size(); ++rank) {
      auto address = DecodeShmAddress(config.addresses[rank]);
      if (!address)
        return Fail(ErrorCode::kInvalidArgument,
                    "the address of rank {} cannot be used: {}. Does that rank use another transport?", rank,
                    address.error().message());
      of_base.addresses[rank] = address->base;
      set_up.peers.push_back(std::move(*address));
    }
    for (std::size_t rank = 0; rank < set_up.peers.size(); ++rank)
      set_up.here.push_back(rank != own && SameHost(set_up.peers[rank], set_up.peers[own]));
    // If no other rank is on this host, this rank has no peer to share memory with.
    if (std::find(set_up.here.begin(), set_up.here.end(), true) == set_up.here.end())
      return base_->OpenEndpoint(of_base);
    // The socket is made before the base endpoint, so that a peer that has a lane to this endpoint also finds the
    // socket. If the system forbids such sockets, peers find none, and every lane stays on the base transport.
    Result<Fd> listener = ListenAt(SocketName(instance_, config.communicator, config.rail), kBacklog);
    if (!listener && listener.error().code() == ErrorCode::kAddressInUse)
      return Fail(ErrorCode::kInvalidArgument,
                  "this transport already has an open endpoint for communicator {}, rail {}", config.communicator,
                  config.rail);
    RONDO_ASSIGN(auto base, base_->OpenEndpoint(of_base));
    RONDO_ASSIGN(auto endpoint,
                 ShmEndpoint::Create(std::move(set_up), std::move(base), listener ? std::move(*listener) : Fd()));
    if (endpoint->MayHaveSharedSegment()) may_have_shared_segment_.store(true, std::memory_order_relaxed);
    return endpoint;
  }

  // Returns a region if `bytes` is at least kLeastRegionBytes, some endpoint may have a shared segment, and enough
  // shared memory is available. (Only ranks of a shared segment read regions.) Otherwise returns the base transport's
  // memory.
  Result<std::unique_ptr<Memory>> Allocate(std::size_t bytes) override {
    if (bytes >= kLeastRegionBytes && may_have_shared_segment_.load(std::memory_order_relaxed))
      if (auto shared = regions_->Allocate(bytes)) return shared;
    return base_->Allocate(bytes);
  }
  Result<std::unique_ptr<Registration>> Register(MutableBytes memory) override { return base_->Register(memory); }
  // Used for lanes that stay on the base transport.
  DeviceRegistrar* device_registrar() override { return base_->device_registrar(); }

 private:
  const std::shared_ptr<Transport> base_;
  const ShmOptions options_;
  const std::string instance_;
  const std::shared_ptr<Regions> regions_ = std::make_shared<Regions>();
  const Capabilities capabilities_;                   // those of the base transport, because lanes may stay on it
  std::atomic<bool> may_have_shared_segment_{false};  // whether some endpoint may have a shared segment
};

}  // namespace
}  // namespace shm

Result<std::shared_ptr<Transport>> MakeShmTransport(std::shared_ptr<Transport> base, ShmOptions options) {
  if (!std::has_single_bit(options.ring_bytes) || options.ring_bytes < 4096 || options.ring_bytes > (1u << 30))
    return Fail(ErrorCode::kInvalidArgument, "ring_bytes is {}; expected a power of two from 4096 to 2^30",
                options.ring_bytes);
  if (options.host_id.size() > 255)
    return Fail(ErrorCode::kInvalidArgument, "host_id has {} bytes; at most 255 are allowed", options.host_id.size());
  std::array<std::uint64_t, 2> random{};
  if (getrandom(random.data(), sizeof random, 0) != sizeof random)
    return Fail(ErrorCode::kResource, "cannot draw a random name for this process: the system gave no random bytes");
  return std::make_shared<shm::ShmTransport>(std::move(base), std::move(options),
                                             fmt::format("{:016x}{:016x}", random[0], random[1]));
}

std::string BaseOfShmAddress(const std::string& address) {
  const auto decoded = shm::DecodeShmAddress(address);
  return decoded ? decoded->base : address;
}

}  // namespace rondo
