#include "transport/sim/sim.h"

#include <string>

#include "base/check.h"
#include "transport/inproc/mapped_memory.h"
#include "transport/sim/core.h"
#include "transport/sim/endpoint.h"

namespace rondo {

namespace {

class NoRegistration final : public Registration {};

class SimTransport final : public Transport {
 public:
  SimTransport(std::shared_ptr<SimCore> core, Rank network_rank)
      : core_(std::move(core)),
        network_rank_(network_rank),
        capabilities_{.push = false, .pull = false, .reserve = true, .late_release = core_->options().late_release} {}

  std::string_view name() const override { return "sim"; }
  const Capabilities& capabilities() const override { return capabilities_; }
  std::string Address() const override { return "sim://" + std::to_string(network_rank_); }
  std::string DescribeAddress() const override { return Address() + ": a simulated network, the only choice"; }

  Result<std::unique_ptr<Endpoint>> OpenEndpoint(const EndpointConfig& config) override {
    if (config.rank < 0 || static_cast<std::size_t>(config.rank) >= config.addresses.size())
      return Fail(ErrorCode::kInvalidArgument, "rank {} in a world of {} addresses", config.rank,
                  config.addresses.size());
    std::vector<Rank> network_ranks;
    for (const std::string& address : config.addresses) {
      RONDO_ASSIGN(const Rank network_rank, core_->ParseAddress(address));
      network_ranks.push_back(network_rank);
    }
    if (network_ranks[config.rank] != network_rank_)
      return Fail(ErrorCode::kInvalidArgument, "rank {} has address {}, but this transport is {}", config.rank,
                  config.addresses[config.rank], Address());
    RONDO_ASSIGN(auto seat, core_->OpenStation(network_rank_, config));
    return std::make_unique<SimEndpoint>(core_, std::move(seat), config, std::move(network_ranks));
  }

  Result<std::unique_ptr<Memory>> Allocate(std::size_t bytes) override { return MapMemory(bytes); }

  Result<std::unique_ptr<Registration>> Register(MutableBytes) override { return std::make_unique<NoRegistration>(); }

 private:
  const std::shared_ptr<SimCore> core_;
  const Rank network_rank_;
  const Capabilities capabilities_;
};

}  // namespace

SimNetwork::SimNetwork(const SimOptions& options) : core_(std::make_shared<SimCore>(options)) {
  for (Rank rank = 0; rank < options.world_size; ++rank)
    transports_.push_back(std::make_shared<SimTransport>(core_, rank));
}

SimNetwork::~SimNetwork() = default;

int SimNetwork::world_size() const { return core_->options().world_size; }

const std::shared_ptr<ManualClock>& SimNetwork::clock() const { return core_->clock(); }

std::shared_ptr<Transport> SimNetwork::transport(Rank rank) const {
  RONDO_CHECK(rank >= 0 && rank < world_size(), "rank {} of {}", rank, world_size());
  return transports_[rank];
}

void SimNetwork::SetLink(Rank from, Rank to, const SimLink& link) { core_->SetLink(from, to, link); }

void SimNetwork::Kill(Rank rank, TimePoint at) {
  RONDO_CHECK(rank >= 0 && rank < world_size(), "rank {} of {}", rank, world_size());
  core_->Schedule(at, {SimCore::Kind::kKill, rank, rank, 0}, [core = core_.get(), rank] { core->Kill(rank); });
}

void SimNetwork::At(TimePoint when, std::function<void()> action) {
  core_->Schedule(when, {SimCore::Kind::kAction, kNoRank, kNoRank, 0}, std::move(action));
}

std::optional<TimePoint> SimNetwork::NextEventTime() const { return core_->NextEventTime(); }

bool SimNetwork::Step() { return core_->Step(); }

std::vector<Rank> SimNetwork::RanksToPoll() const { return core_->RanksToPoll(); }

std::uint64_t SimNetwork::trace_hash() const { return core_->trace_hash(); }

SimCounters SimNetwork::counters() const { return core_->counters; }

}  // namespace rondo
