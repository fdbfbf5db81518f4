#include "transport/inproc/inproc.h"

#include <string>

#include "base/check.h"
#include "transport/inproc/endpoint.h"
#include "transport/inproc/fabric.h"
#include "transport/mapped_memory.h"

namespace rondo {

namespace {

// Threads share all memory, so there is nothing to register.
class NoRegistration final : public Registration {};

class InprocTransport final : public Transport {
 public:
  InprocTransport(std::shared_ptr<InprocFabric> fabric, Rank network_rank)
      : fabric_(std::move(fabric)), network_rank_(network_rank) {
    const InprocOptions& options = fabric_->options;
    capabilities_ = {.push = options.push, .late_release = options.late_release || options.reluctant};
  }

  std::string_view name() const override { return "inproc"; }
  const Capabilities& capabilities() const override { return capabilities_; }
  std::string Address() const override { return fabric_->AddressOf(network_rank_); }
  std::string DescribeAddress() const override { return Address() + ": threads of one process, the only choice"; }

  Result<std::unique_ptr<Endpoint>> OpenEndpoint(const EndpointConfig& config) override {
    if (config.rank < 0 || static_cast<std::size_t>(config.rank) >= config.addresses.size())
      return Fail(ErrorCode::kInvalidArgument, "rank {} is outside the group, which has {} addresses", config.rank,
                  config.addresses.size());
    std::vector<Rank> network_ranks;
    for (const std::string& address : config.addresses) {
      RONDO_ASSIGN(const Rank network_rank, fabric_->ParseAddress(address));
      network_ranks.push_back(network_rank);
    }
    if (network_ranks[config.rank] != network_rank_)
      return Fail(ErrorCode::kInvalidArgument, "rank {} has address {}, but this transport has address {}", config.rank,
                  config.addresses[config.rank], Address());
    RONDO_ASSIGN(auto seat, fabric_->OpenStation(network_rank_, config));
    return std::make_unique<InprocEndpoint>(fabric_, std::move(seat), config, std::move(network_ranks));
  }

  Result<std::unique_ptr<Memory>> Allocate(std::size_t bytes) override { return MapMemory(bytes); }

  Result<std::unique_ptr<Registration>> Register(MutableBytes) override { return std::make_unique<NoRegistration>(); }

 private:
  const std::shared_ptr<InprocFabric> fabric_;
  const Rank network_rank_;
  Capabilities capabilities_;
};

}  // namespace

InprocNetwork::InprocNetwork(int world_size, const InprocOptions& options)
    : fabric_(std::make_shared<InprocFabric>(world_size, options)) {
  for (Rank rank = 0; rank < world_size; ++rank)
    transports_.push_back(std::make_shared<InprocTransport>(fabric_, rank));
}

InprocNetwork::~InprocNetwork() = default;

int InprocNetwork::world_size() const { return fabric_->world_size; }

std::shared_ptr<Transport> InprocNetwork::transport(Rank rank) const {
  RONDO_CHECK(rank >= 0 && rank < fabric_->world_size, "rank {} of {}", rank, fabric_->world_size);
  return transports_[rank];
}

void InprocNetwork::Kill(Rank rank) {
  RONDO_CHECK(rank >= 0 && rank < fabric_->world_size, "rank {} of {}", rank, fabric_->world_size);
  fabric_->Kill(rank);
}

InprocCounters InprocNetwork::counters() const {
  return {.writes = fabric_->tally.writes.load(std::memory_order_relaxed),
          .pushed_bytes = fabric_->tally.pushed_bytes.load(std::memory_order_relaxed),
          .zero_copy_bytes = fabric_->tally.zero_copy_bytes.load(std::memory_order_relaxed),
          .windows_refused = fabric_->tally.windows_refused.load(std::memory_order_relaxed)};
}

}  // namespace rondo
