// A host whose ranks are started by an agent. This is the launcher's side of the protocol with that agent
// (agent_words.h). The launcher starts the agent by ssh.
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

// The values that are the same for all ranks of a host.
struct AgentJob {
  std::string directory;
  Duration grace = Duration::zero();  // the time from SIGTERM to SIGKILL, if the launcher ends before its ranks
  std::vector<std::string> command;
  Variables environment;
};

// A host has three states: dialed, handshake done, and ready (after Order). When the host is ready, its ranks can be
// started. Pump advances the state. The host can fail in every state.
class RemoteHost final : public RankHost {
 public:
  // Starts ssh. `patience`: the time within which ssh must connect. `output` gets what ranks write, and must outlive
  // the host. kInvalidArgument: the ssh command cannot be run.
  static Result<std::unique_ptr<RemoteHost>> Dial(const HostEntry& host, const SshOptions& options, Duration patience,
                                                  const Clock& clock, TaggedOutput& output);

  // The first reason why this host cannot be used any more, with the host's name.
  const std::optional<Error>& failure() const { return failure_; }
  // What ssh has printed to stderr so far, for a message about a timeout; "" if it has printed nothing.
  std::string WhatSshSaid() const;
  bool handshake_done() const { return handshake_done_; }
  // The address of this host as the other host sees it; "" if SSH_CONNECTION does not contain it. REQUIRES:
  // handshake_done().
  const std::string& caller() const { return caller_; }
  // The address of the other host to which ssh connected; "" if SSH_CONNECTION does not contain it. REQUIRES:
  // handshake_done().
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

  bool magic_ = false;  // whether kAgentMagic has arrived
  bool handshake_done_ = false;
  bool ready_ = false;
  std::string caller_;
  std::string own_address_;
  std::optional<Error> failure_;
  std::set<Rank> running_;
  // For each rank, the number of input bytes that were sent, but that the agent has not yet reported as taken.
  std::map<Rank, std::size_t> unread_;
  std::vector<EndedRank> ended_;
};

}  // namespace rondo
