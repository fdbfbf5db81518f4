// Ranks on this host: child processes of the launcher.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tools/run/oom_watch.h"
#include "tools/run/rank_host.h"
#include "tools/run/rank_process.h"

namespace rondo {

class LocalHost final : public RankHost {
 public:
  // `ranks`: the options that all ranks share.
  LocalHost(std::string name, RankProcessOptions ranks) : name_(std::move(name)), ranks_(std::move(ranks)) {}

  const std::string& name() const override { return name_; }
  bool is_here() const override { return true; }
  // kInvalidArgument: the command cannot be run; the message says why.
  Status Start(Rank rank, const Variables& environment, RankInput input) override;
  void Feed(Rank rank, std::string_view bytes) override;
  std::size_t Unread(Rank rank) const override;
  void Signal(int signal) override;
  void AddDescriptors(std::vector<pollfd>& fds) const override;
  void Pump() override;
  std::vector<EndedRank> TakeEnded() override;
  void GiveUp() override {}  // nothing to do, because no process of this host survives SIGKILL
  void Dismiss() override {}
  void Finish() override;

 private:
  RankProcess* Find(Rank rank) const;  // null: the rank was never started
  // Records the cgroups of all ranks. Runs soon after the latest start of a rank, then at growing intervals.
  void LookAtGroups();
  void SetTimer(std::int64_t milliseconds);

  const std::string name_;
  const RankProcessOptions ranks_;
  std::vector<std::unique_ptr<RankProcess>>
      processes_;  // includes ranks that have ended, because their own children may still write output
  OomWatch memory_;
  Fd timer_;                        // expires when LookAtGroups must run again
  std::int64_t look_after_ms_ = 0;  // the interval to which timer_ was last set
  bool kills_ = false;              // whether Signal has sent SIGKILL to the ranks
};

}  // namespace rondo
