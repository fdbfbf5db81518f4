#include "transport/sim/sim.h"

#include <string>
#include <utility>

#include "base/check.h"
#include "transport/mapped_memory.h"
#include "transport/sim/core.h"
#include "transport/sim/endpoint.h"

namespace rondo {

namespace {

class NoRegistration final : public Registration {};

class SimTransport final : public Transport {
 public:
  SimTransport(std::shared_ptr<SimCore> core, SimCore::Place place)
      : core_(std::move(core)),
        place_(place),
        capabilities_{.late_release = core_->options().late_release || core_->options().reads_late} {}

  std::string_view name() const override { return "sim"; }
  const Capabilities& capabilities() const override { return capabilities_; }
  std::string Address() const override { return core_->AddressOf(place_); }
  std::string DescribeAddress() const override { return Address() + ": a simulated network, the only choice"; }

  Result<std::unique_ptr<Endpoint>> OpenEndpoint(const EndpointConfig& config) override {
    if (config.rank < 0 || static_cast<std::size_t>(config.rank) >= config.addresses.size())
      return Fail(ErrorCode::kInvalidArgument, "rank {} is outside the group, which has {} addresses", config.rank,
                  config.addresses.size());
    std::vector<SimCore::Place> group;
    for (const std::string& address : config.addresses) {
      RONDO_ASSIGN(const SimCore::Place place, core_->ParseAddress(address));
      group.push_back(place);
    }
    if (group[config.rank] != place_)
      return Fail(ErrorCode::kInvalidArgument, "rank {} has address {}, but this transport has address {}", config.rank,
                  config.addresses[config.rank], Address());
    RONDO_ASSIGN(auto seat, core_->OpenStation(place_, config, group));
    return std::make_unique<SimEndpoint>(core_, std::move(seat), config, std::move(group));
  }

  Result<std::unique_ptr<Memory>> Allocate(std::size_t bytes) override { return MapMemory(bytes); }

  Result<std::unique_ptr<Registration>> Register(MutableBytes) override { return std::make_unique<NoRegistration>(); }

 private:
  const std::shared_ptr<SimCore> core_;
  const SimCore::Place place_;
  const Capabilities capabilities_;
};

}  // namespace

SimNetwork::SimNetwork(const SimOptions& options) : core_(std::make_shared<SimCore>(options)) {
  for (Rank rank = 0; rank < options.world_size; ++rank)
    transports_.push_back(std::make_shared<SimTransport>(core_, SimCore::Place{rank, 0}));
}

SimNetwork::~SimNetwork() = default;

int SimNetwork::world_size() const { return core_->options().world_size; }

const std::shared_ptr<ManualClock>& SimNetwork::clock() const { return core_->clock(); }

std::shared_ptr<Transport> SimNetwork::transport(Rank rank) const {
  RONDO_CHECK(rank >= 0 && rank < world_size(), "rank {} of {}", rank, world_size());
  return transports_[rank];
}

std::shared_ptr<Transport> SimNetwork::OpenTransport(Rank rank, SimProcess process) {
  RONDO_CHECK(rank >= 0 && rank < world_size(), "rank {} of {}", rank, world_size());
  return std::make_shared<SimTransport>(core_, core_->StartProcess(rank, std::move(process)));
}

void SimNetwork::SetLink(Rank from, Rank to, const SimLink& link) { core_->SetLink(from, to, link); }

void SimNetwork::Kill(Rank rank, TimePoint at) {
  RONDO_CHECK(rank >= 0 && rank < world_size(), "rank {} of {}", rank, world_size());
  core_->ScheduleFault(at, {SimCore::Kind::kKill, rank, rank, 0}, [core = core_.get(), rank] { core->Kill(rank); });
}

void SimNetwork::KillAtEvent(Rank rank, std::uint64_t event) {
  RONDO_CHECK(rank >= 0 && rank < world_size(), "rank {} of {}", rank, world_size());
  core_->KillAtEvent(rank, event);
}

bool SimNetwork::killed(Rank rank) const { return core_->killed(rank); }

void SimNetwork::Partition(std::span<const Rank> from, std::span<const Rank> to, TimePoint at, TimePoint until) {
  std::vector<std::pair<Rank, Rank>> links;
  for (const Rank a : from)
    for (const Rank b : to)
      if (a != b) links.emplace_back(a, b);
  core_->Partition(std::move(links), at, until);
}

void SimNetwork::Cut(const SimStream& stream, std::uint64_t at_byte) {
  core_->AddStreamFault(stream, at_byte, nullptr);
}

void SimNetwork::Corrupt(const SimStream& stream, SimFlip choose) {
  RONDO_CHECK(stream.lane.has_value(), "only bytes of lanes are turned");
  core_->AddStreamFault(stream, std::nullopt, std::move(choose));
}

void SimNetwork::Corrupt(const SimStream& stream, std::uint64_t byte, int bit) {
  Corrupt(stream, [byte, bit](std::uint64_t offset, Bytes piece) -> std::optional<std::uint64_t> {
    if (byte < offset || byte >= offset + piece.size()) return std::nullopt;
    return (byte - offset) * 8 + static_cast<std::uint64_t>(bit);
  });
}

void SimNetwork::Pause(Rank rank, TimePoint at, TimePoint until) {
  RONDO_CHECK(rank >= 0 && rank < world_size(), "rank {} of {}", rank, world_size());
  core_->Pause(rank, at, until);
}

bool SimNetwork::paused(Rank rank) const { return core_->paused(rank); }

void SimNetwork::Call(Rank to, std::vector<std::byte> bytes, TimePoint at, std::function<void(Bytes)> answer) {
  RONDO_CHECK(to >= 0 && to < world_size(), "rank {} of {}", to, world_size());
  core_->Call(to, std::move(bytes), at, std::move(answer));
}

void SimNetwork::Heal() { core_->Heal(); }

void SimNetwork::TellFaults(std::function<void(TimePoint, std::string_view)> notifier) {
  core_->notifier = std::move(notifier);
}

void SimNetwork::At(TimePoint when, std::function<void()> action) {
  core_->Schedule(when, {SimCore::Kind::kAction, kNoRank, kNoRank, 0}, std::move(action));
}

std::optional<TimePoint> SimNetwork::NextEventTime() const { return core_->NextEventTime(); }

bool SimNetwork::Step() { return core_->Step(); }

std::vector<Rank> SimNetwork::RanksToPoll() const { return core_->RanksToPoll(); }

std::vector<Rank> SimNetwork::TakeTouched() { return core_->TakeTouched(); }

std::uint64_t SimNetwork::trace_hash() const { return core_->trace_hash(); }

SimCounters SimNetwork::counters() const { return core_->counters; }

}  // namespace rondo
