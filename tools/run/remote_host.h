// Ranks on another host: the launcher's side of the talk with the agent there (agent_words.h), which an ssh started.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "tools/run/agent_words.h"
#include "tools/run/host_list.h"
#include "tools/run/rank_host.h"
#include "tools/run/tagged_output.h"

namespace rondo {

// What all ranks of a host have in common.
struct AgentJob {
  std::string directory;
  Duration grace = Duration::zero();  // from SIGTERM to SIGKILL, when we are gone
  std::vector<std::string> command;
  Variables environment;
};

// From Dial on Pump makes progress: greeted, then Order, then ready, then ranks; or, at any time, failed.
class RemoteHost final : public RankHost {
 public:
  // `patience`: for ssh to connect. `output`, which outlives it, gets what ranks write. kInvalidArgument: there is no
  // such ssh.
  static Result<std::unique_ptr<RemoteHost>> Dial(const HostEntry& host, const SshOptions& options, Duration patience,
                                                  const Clock& clock, TaggedOutput& output);

  // The first cause why nothing can be done there any more, with the host's name.
  const std::optional<Error>& failure() const { return failure_; }
  // What ssh has said so far, for whoever gives up waiting; "" or in words.
  std::string WhatSshSaid() const;
  bool greeted() const { return greeted_; }
  // This host's address as that one sees it; "" where ssh does not tell. REQUIRES: greeted().
  const std::string& caller() const { return caller_; }
  // The address of that host to which ssh came; likewise.
  const std::string& own_address() const { return own_address_; }
  void Order(const AgentJob& job);
  bool ready() const { return ready_; }

  const std::string& name() const override { return name_; }
  bool is_here() const override { return false; }
  Status Start(Rank rank, const Variables& environment, RankInput input) override;
  void Feed(Rank rank, std::string_view bytes) override;
  std::size_t Unread(Rank rank) const override;
  void Signal(int signal) override;
  void AddDescriptors(std::vector<pollfd>& fds) const override;
  void Pump() override;
  std::vector<EndedRank> TakeEnded() override { return std::exchange(ended_, {}); }
  void GiveUp() override;
  void Dismiss() override { agent_.CloseOut(); }
  void Finish() override;

 private:
  RemoteHost(std::string name, SshOptions options, const Clock& clock, TaggedOutput& output, AgentStream agent,
             Fd errors)
      : name_(std::move(name)),
        options_(std::move(options)),
        clock_(clock),
        output_(output),
        agent_(std::move(agent)),
        errors_(std::move(errors)) {}

  Status TakeWords();
  Status Take(const AgentWord& word);
  void TakeErrors();
  Error WhyItEnded(const ExitStatus& status) const;
  void Lose(Error why);

  const std::string name_;
  const SshOptions options_;
  const Clock& clock_;
  TaggedOutput& output_;
  AgentStream agent_;
  Fd errors_;  // ssh's stderr
  std::string said_;
  std::unique_ptr<ChildProcess> ssh_;

  bool magic_ = false;  // was seen
  bool greeted_ = false;
  bool ready_ = false;
  std::string caller_;
  std::string own_address_;
  std::optional<Error> failure_;
  std::set<Rank> running_;
  std::map<Rank, std::size_t> unread_;  // bytes given to a rank, of which its agent has not said that it took them
  std::vector<EndedRank> ended_;
};

}  // namespace rondo
