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
  // `ranks`: what all of them have in common.
  LocalHost(std::string name, RankProcessOptions ranks) : name_(std::move(name)), ranks_(std::move(ranks)) {}

  const std::string& name() const override { return name_; }
  bool is_here() const override { return true; }
  // kInvalidArgument: the command cannot be run, and why.
  Status Start(Rank rank, const Variables& environment, RankInput input) override;
  void Feed(Rank rank, std::string_view bytes) override;
  std::size_t Unread(Rank rank) const override;
  void Signal(int signal) override;
  void AddDescriptors(std::vector<pollfd>& fds) const override;
  void Pump() override;
  std::vector<EndedRank> TakeEnded() override;
  void GiveUp() override {}  // SIGKILL is obeyed here
  void Dismiss() override {}
  void Finish() override;

 private:
  RankProcess* Find(Rank rank) const;  // null: it was never started
  // Looks at the groups of all ranks: soon after the last start, and ever more rarely.
  void LookAtGroups();
  void SetTimer(std::int64_t milliseconds);

  const std::string name_;
  const RankProcessOptions ranks_;
  std::vector<std::unique_ptr<RankProcess>>
      processes_;  // those that have ended too: children of theirs may still write
  OomWatch memory_;
  Fd timer_;                        // when to look again
  std::int64_t look_after_ms_ = 0;  // when that was set
  bool kills_ = false;              // ranks, by SIGKILL
};

}  // namespace rondo
