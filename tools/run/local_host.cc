#include "tools/run/local_host.h"

#include <fmt/core.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <csignal>
#include <utility>

namespace rondo {
namespace {

constexpr std::int64_t kFirstLookMs = 50, kRarestLookMs = 30'000;

}  // namespace

RankProcess* LocalHost::Find(Rank rank) const {
  const auto found = std::find_if(processes_.begin(), processes_.end(), [&](auto& p) { return p->rank() == rank; });
  return found == processes_.end() ? nullptr : found->get();
}

void LocalHost::Feed(Rank rank, std::string_view bytes) {
  if (RankProcess* const process = Find(rank)) process->Feed(bytes);
}

std::size_t LocalHost::Unread(Rank rank) const {
  const RankProcess* const process = Find(rank);
  return process == nullptr ? 0 : process->unread();
}

Status LocalHost::Start(Rank rank, const Variables& environment, RankInput input) {
  RankProcessOptions options = ranks_;
  options.rank = rank;
  options.input = input;
  options.environment.insert(options.environment.end(), environment.begin(), environment.end());
  RONDO_ASSIGN(std::unique_ptr<RankProcess> started, RankProcess::Start(options));
  memory_.Look(rank, started->child().pid());
  SetTimer(kFirstLookMs);
  const auto earlier = std::find_if(processes_.begin(), processes_.end(), [&](auto& p) { return p->rank() == rank; });
  if (earlier == processes_.end()) {
    processes_.push_back(std::move(started));
  } else {
    (*earlier)->FinishOutput();
    *earlier = std::move(started);
  }
  return {};
}

void LocalHost::SetTimer(std::int64_t milliseconds) {
  if (!timer_) timer_ = Fd(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  look_after_ms_ = milliseconds;
  itimerspec once{};
  once.it_value = {.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1'000'000};
  ::timerfd_settime(timer_.get(), 0, &once, nullptr);
}

void LocalHost::LookAtGroups() {
  std::uint64_t expirations = 0;
  if (!timer_ || ::read(timer_.get(), &expirations, sizeof expirations) != sizeof expirations) return;
  for (const auto& process : processes_)
    if (process->child().running()) memory_.Look(process->rank(), process->child().pid());
  SetTimer(std::min(2 * look_after_ms_, kRarestLookMs));
}

void LocalHost::Signal(int signal) {
  kills_ = kills_ || signal == SIGKILL;
  for (const auto& process : processes_) process->child().Signal(signal);
}

void LocalHost::AddDescriptors(std::vector<pollfd>& fds) const {
  for (const auto& process : processes_) process->AddDescriptors(fds);
  if (timer_) fds.push_back({timer_.get(), POLLIN, 0});
}

void LocalHost::Pump() {
  LookAtGroups();
  for (const auto& process : processes_) {
    process->PumpInput();
    process->PumpOutput();
  }
}

std::vector<EndedRank> LocalHost::TakeEnded() {
  std::vector<EndedRank> ended;
  for (const auto& process : processes_) {
    ChildProcess& child = process->child();
    if (!child.running()) continue;
    const std::optional<ExitStatus> status = child.Reap();
    if (!status) continue;
    process->PumpOutput();
    const std::string cause = kills_ ? "" : memory_.Explain(process->rank(), *status);
    ended.push_back(
        {process->rank(), child.pid(), *status, cause.empty() ? "" : fmt::format("(pid {}) {}", child.pid(), cause)});
  }
  return ended;
}

void LocalHost::Finish() {
  for (const auto& process : processes_) process->FinishOutput();
}

}  // namespace rondo
