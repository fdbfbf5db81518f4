#include "tools/local_host.h"

#include <algorithm>
#include <utility>

namespace rondo {

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
  const auto earlier = std::find_if(processes_.begin(), processes_.end(), [&](auto& p) { return p->rank() == rank; });
  if (earlier == processes_.end()) {
    processes_.push_back(std::move(started));
  } else {
    (*earlier)->FinishOutput();
    *earlier = std::move(started);
  }
  return {};
}

void LocalHost::Signal(int signal) {
  for (const auto& process : processes_) process->child().Signal(signal);
}

void LocalHost::AddDescriptors(std::vector<pollfd>& fds) const {
  for (const auto& process : processes_) process->AddDescriptors(fds);
}

void LocalHost::Pump() {
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
    ended.push_back({process->rank(), child.pid(), *status, ""});
  }
  return ended;
}

void LocalHost::Finish() {
  for (const auto& process : processes_) process->FinishOutput();
}

}  // namespace rondo
