#include "simulation/cluster.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace rondo::simulation {
namespace {

// A dying process needs a few turns to unwind. One that needs this many does not check whether it was killed.
constexpr std::uint32_t kMaxTurnsWhenDying = 100'000;

}  // namespace

class Cluster::FiberWaiter final : public Waiter {
 public:
  explicit FiberWaiter(Cluster& cluster) : cluster_(cluster) {}
  // The descriptor can be ignored: the code that signals it has also caused an event at the endpoint.
  void Sleep(Endpoint&, int, TimePoint deadline) override { cluster_.Block(deadline); }
  // Lets other processes run and virtual time pass. Otherwise a process that polls until a deadline would loop forever.
  void Yield() override { cluster_.Block(cluster_.network_.clock()->Now() + std::chrono::microseconds(1)); }

 private:
  Cluster& cluster_;
};

Cluster::Cluster(SimNetwork& network, FiberStacks& stacks, std::uint64_t seed)
    : network_(network),
      stacks_(stacks),
      random_(seed),
      processes_(static_cast<std::size_t>(network.world_size())),
      waiter_(std::make_shared<FiberWaiter>(*this)) {}

Cluster::~Cluster() { RONDO_CHECK(running_ == 0, "{} simulated processes still run", running_); }

void Cluster::Spawn(Rank rank, std::function<void()> body, std::function<void()> on_death) {
  RONDO_CHECK(!Runs(rank), "rank {} already runs a process", rank);
  Process& process = processes_[static_cast<std::size_t>(rank)];
  process.fiber = std::make_unique<Fiber>(stacks_, std::move(body));
  process.on_death = std::move(on_death);
  process.until = TimePoint::max();
  ++running_;
  Notify(rank);
}

void Cluster::Serve(Rank rank, std::function<void()> service) {
  processes_[static_cast<std::size_t>(rank)].service = std::move(service);
}

void Cluster::Block(TimePoint until) {
  RONDO_CHECK(current_ != kNoRank, "the scheduler itself cannot wait");
  Process& process = processes_[static_cast<std::size_t>(current_)];
  if (process.dying) {
    RONDO_CHECK(++process.turns_when_dying < kMaxTurnsWhenDying, "rank {} was killed, but still waits", current_);
    return;
  }
  process.until = until;
  process.fiber->Suspend();
}

bool Cluster::Await(const std::function<bool()>& ready, TimePoint until) {
  while (!ready()) {
    if (dying() || network_.clock()->Now() >= until) return false;
    Block(until);
  }
  return true;
}

bool Cluster::dying() const { return current_ != kNoRank && processes_[static_cast<std::size_t>(current_)].dying; }

void Cluster::Notify(Rank rank) {
  Process& process = processes_[static_cast<std::size_t>(rank)];
  if (process.fiber == nullptr || process.ready || !process.until) return;
  process.ready = true;
  ready_.push_back(rank);
}

void Cluster::NotifyAll() {
  for (Rank rank = 0; rank < static_cast<Rank>(processes_.size()); ++rank) Notify(rank);
}

void Cluster::Look(Rank rank) {
  Process& process = processes_[static_cast<std::size_t>(rank)];
  if (network_.killed(rank)) {
    if (!std::exchange(process.dying, true) && process.fiber != nullptr && process.on_death) process.on_death();
  } else if (network_.paused(rank)) {
    return;  // Look is called again when the process continues
  } else if (process.service) {
    process.service();
  }
  Notify(rank);
}

void Cluster::TakeTurn(Rank rank) {
  Process& process = processes_[static_cast<std::size_t>(rank)];
  process.ready = false;
  if (network_.paused(rank) && !process.dying) return;
  process.until.reset();
  current_ = rank;
  ++switches_;
  process.fiber->Resume();
  current_ = kNoRank;
  if (!process.fiber->ended()) return;
  process.fiber.reset();
  process.on_death = nullptr;
  --running_;
}

Cluster::End Cluster::Run(TimePoint until) {
  while (true) {
    for (const Rank rank : network_.TakeTouched()) Look(rank);
    if (!ready_.empty()) {
      const std::size_t chosen = random_.Below(ready_.size());
      const Rank rank = ready_[chosen];
      ready_[chosen] = ready_.back();
      ready_.pop_back();
      TakeTurn(rank);
      continue;
    }
    if (running_ == 0) return End::kDone;
    TimePoint next = TimePoint::max();
    for (Rank rank = 0; rank < static_cast<Rank>(processes_.size()); ++rank)
      if (const auto& wakes = processes_[static_cast<std::size_t>(rank)].until; wakes && !network_.paused(rank))
        next = std::min(next, *wakes);
    const auto event = network_.NextEventTime();
    if (!event && next == TimePoint::max()) return End::kStuck;
    if (std::min(next, event.value_or(next)) > until) return End::kLate;
    if (event && *event <= next) {
      network_.Step();
      continue;
    }
    network_.clock()->AdvanceTo(std::max(next, network_.clock()->Now()));
    for (Rank rank = 0; rank < static_cast<Rank>(processes_.size()); ++rank)
      if (const auto& wakes = processes_[static_cast<std::size_t>(rank)].until; wakes && *wakes <= next) Notify(rank);
  }
}

}  // namespace rondo::simulation
