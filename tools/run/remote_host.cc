#include "tools/run/remote_host.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <utility>

#include "base/version.h"

namespace rondo {
namespace {

// bytes of ssh's stderr that are kept: only the end, because the end says why ssh failed
constexpr std::size_t kMaxSaidBytes = 4096;
// The longest wait for the exit of ssh after the agent's output has ended. The exit code of ssh says why the agent
// ended.
constexpr Duration kLastMoment = std::chrono::seconds(1);
// The longest wait for the remaining output after all ranks have ended.
constexpr Duration kAgentFarewell = std::chrono::seconds(10);

// Quotes the text for the shell of the other host, because ssh passes one line to that shell.
std::string Quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

}  // namespace

Result<std::unique_ptr<RemoteHost>> RemoteHost::Dial(const HostEntry& host, const SshOptions& options,
                                                     Duration patience, const Clock& clock, TaggedOutput& output) {
  RONDO_ASSIGN(Pipe in, MakePipe());
  RONDO_ASSIGN(Pipe out, MakePipe());
  RONDO_ASSIGN(Pipe err, MakePipe());
  ChildOptions ssh{.command = options.command, .environment = ProcessVariables()};
  // ssh must give up before our own timeout, so that it can report the reason. The keep-alive options detect a lost
  // host in 45 s.
  const auto connect_s = std::chrono::duration_cast<std::chrono::seconds>(patience * 3 / 4).count();
  for (const std::string& word : {std::string("-T"), std::string("-oBatchMode=yes"),
                                  fmt::format("-oConnectTimeout={}", std::max<std::int64_t>(connect_s, 1)),
                                  std::string("-oServerAliveInterval=15"), std::string("-oServerAliveCountMax=3"),
                                  std::string("-oClearAllForwardings=yes"), host.ToString(),
                                  fmt::format("{} run-agent", Quoted(options.rondo))}) {
    ssh.command.push_back(word);
  }
  ssh.in = in.read.get();
  ssh.out = out.write.get();
  ssh.err = err.write.get();
  ::fcntl(err.read.get(), F_SETFL, O_NONBLOCK);
  std::unique_ptr<RemoteHost> remote(new RemoteHost(host.ToString(), options, clock, output,
                                                    AgentStream(std::move(out.read), std::move(in.write)),
                                                    std::move(err.read)));
  auto started = ChildProcess::Start(ssh);
  if (!started) {
    return Fail(started.error().code(), "{} (--ssh; Debian's package is openssh-client)", started.error().message());
  }
  remote->ssh_ = *std::move(started);
  return remote;
}

void RemoteHost::Order(const AgentJob& job) {
  const auto grace_ms = std::chrono::ceil<std::chrono::milliseconds>(job.grace).count();
  AgentWord word{AgentWordKind::kJob, {job.directory, std::to_string(grace_ms), std::to_string(job.command.size())}};
  word.texts.insert(word.texts.end(), job.command.begin(), job.command.end());
  for (const auto& [name, value] : job.environment) word.texts.insert(word.texts.end(), {name, value});
  agent_.Send(word);
}

Status RemoteHost::Start(Rank rank, const Variables& environment, RankInput input) {
  if (failure_) return Fail(*failure_);
  AgentWord word{AgentWordKind::kStart, {std::to_string(rank), input == RankInput::kFed ? "1" : "0"}};
  for (const auto& [name, value] : environment) word.texts.insert(word.texts.end(), {name, value});
  agent_.Send(word);
  running_.insert(rank);
  unread_[rank] = 0;
  return {};
}

void RemoteHost::Feed(Rank rank, std::string_view bytes) {
  if (running_.count(rank) == 0) return;
  agent_.Send({AgentWordKind::kInput, {std::to_string(rank), std::string(bytes)}});
  unread_[rank] += bytes.size();
}

std::size_t RemoteHost::Unread(Rank rank) const {
  const auto found = unread_.find(rank);
  return found == unread_.end() || running_.count(rank) == 0 ? 0 : found->second;
}

void RemoteHost::Signal(int signal) {
  if (!running_.empty()) agent_.Send({AgentWordKind::kSignal, {std::to_string(signal)}});
}

void RemoteHost::AddDescriptors(std::vector<pollfd>& fds) const {
  agent_.AddDescriptors(fds);
  if (errors_) fds.push_back({errors_.get(), POLLIN, 0});
}

void RemoteHost::Pump() {
  if (failure_) return;
  agent_.Flush();
  // Check for the end of ssh before Receive, so that Receive gets everything that the agent sent.
  const bool ended = ssh_->Reap().has_value();
  agent_.Receive();
  TakeErrors();
  if (const Status taken = TakeWords(); !taken) {
    Lose(Error(taken.error().code(), fmt::format("{}: {}", name_, taken.error().message())));
  } else if (ended || agent_.over()) {
    const ExitStatus status = ssh_->ReapWithin(kLastMoment);
    TakeErrors();
    Lose(WhyItEnded(status));
  }
}

Status RemoteHost::TakeWords() {
  if (!magic_) {
    RONDO_ASSIGN(magic_, agent_.TakeMagic());
    if (!magic_) return {};
  }
  while (true) {
    RONDO_ASSIGN(const std::optional<AgentWord> word, agent_.Next());
    if (!word) return {};
    RONDO_TRY(Take(*word));
  }
}

Status RemoteHost::Take(const AgentWord& word) {
  switch (word.kind) {
    case AgentWordKind::kHello: {
      RONDO_ASSIGN(const std::string version, word.Text(0));
      if (version != kRondoVersion) {
        return Fail(ErrorCode::kVersionMismatch,
                    "{} on that host has version {}, but rondo on this host has version {}", options_.rondo, version,
                    kRondoVersion);
      }
      RONDO_ASSIGN(caller_, word.Text(1));
      RONDO_ASSIGN(own_address_, word.Text(2));
      handshake_done_ = true;
      return {};
    }
    case AgentWordKind::kReady:
      ready_ = true;
      said_.clear();  // drops the banners that the host printed at login
      return {};
    case AgentWordKind::kRefused: {
      RONDO_ASSIGN(const std::string why, word.Text(0));
      return Fail(ErrorCode::kInvalidArgument, "{}", why);
    }
    case AgentWordKind::kOutput: {
      RONDO_ASSIGN(const std::int64_t rank, word.Number(0, 0, INT32_MAX));
      RONDO_ASSIGN(const std::int64_t stream, word.Number(1, STDOUT_FILENO, STDERR_FILENO));
      RONDO_ASSIGN(const std::string bytes, word.Text(2));
      output_.Write(static_cast<Rank>(rank), static_cast<int>(stream), bytes);
      return {};
    }
    case AgentWordKind::kEnded: {
      RONDO_ASSIGN(const std::int64_t rank, word.Number(0, 0, INT32_MAX));
      RONDO_ASSIGN(const std::int64_t pid, word.Number(1, 0, INT32_MAX));
      RONDO_ASSIGN(const std::int64_t code, word.Number(2, 0, 255));
      RONDO_ASSIGN(const std::int64_t signal, word.Number(3, 0, SIGRTMAX));
      RONDO_ASSIGN(const std::string why, word.Text(4));
      if (running_.erase(static_cast<Rank>(rank)) == 0) {
        return Fail(ErrorCode::kProtocol, "the agent reported the end of rank {}, which does not run on that host",
                    rank);
      }
      ended_.push_back({static_cast<Rank>(rank), static_cast<pid_t>(pid),
                        ExitStatus{static_cast<int>(code), static_cast<int>(signal)}, why});
      return {};
    }
    case AgentWordKind::kTaken: {
      RONDO_ASSIGN(const std::int64_t rank, word.Number(0, 0, INT32_MAX));
      RONDO_ASSIGN(const std::int64_t bytes, word.Number(1, 0, INT64_MAX));
      std::size_t& unread = unread_[static_cast<Rank>(rank)];
      unread -= std::min(unread, static_cast<std::size_t>(bytes));
      return {};
    }
    case AgentWordKind::kPulse: return {};
    default:
      return Fail(ErrorCode::kProtocol, "'{}' is not a message that an agent sends", static_cast<char>(word.kind));
  }
}

// Collects the text that ssh prints to stderr. The agent prints there only if it cannot continue.
void RemoteHost::TakeErrors() {
  std::array<char, 4096> buffer;
  while (errors_) {
    const ssize_t got = ::read(errors_.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got <= 0) {
      errors_.Close();
      break;
    }
    said_.append(buffer.data(), static_cast<std::size_t>(got));
    if (said_.size() > kMaxSaidBytes) said_.erase(0, said_.size() - kMaxSaidBytes);
  }
}

std::string RemoteHost::WhatSshSaid() const {
  std::string text;
  for (std::size_t at = 0; at < said_.size();) {
    const std::size_t end = std::min(said_.find('\n', at), said_.size());
    std::string line = said_.substr(at, end - at);
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty()) text += (text.empty() ? "" : "; ") + line;
    at = end + 1;
  }
  return text;
}

Error RemoteHost::WhyItEnded(const ExitStatus& status) const {
  const std::string said = WhatSshSaid();
  const std::string because = said.empty() ? "" : ": " + said;
  const std::string& ssh = options_.command.front();
  if (ready_) {
    return Error(ErrorCode::kUnreachable,
                 fmt::format("{}: its agent ended: {} {}{}", name_, ssh, status.ToString(), because));
  }
  if (status.code == 127 || status.code == 126) {
    return Error(ErrorCode::kInvalidArgument,
                 fmt::format("{}: {} cannot be run there; give its path by --remote-rondo PATH{}", name_,
                             options_.rondo, because));
  }
  if (status.signal == 0 && status.code != 255) {
    // status.code is the exit code of the program that ssh ran, because if ssh itself fails, the code is 255.
    return Error(ErrorCode::kVersionMismatch,
                 fmt::format("{}: {} on that host does not answer as rondo's agent, and exited with code {}{}", name_,
                             options_.rondo, status.code, because));
  }
  return Error(ErrorCode::kUnreachable, fmt::format("{}: {} {}{}", name_, ssh, status.ToString(), because));
}

void RemoteHost::Lose(Error why) {
  agent_.CloseOut();
  ssh_->ReapWithin(Duration::zero());
  for (const Rank rank : std::exchange(running_, {})) {
    ended_.push_back({rank, 0, ExitStatus{1, 0}, fmt::format("was lost with its host: {}", why.message())});
  }
  if (!failure_) failure_ = std::move(why);
}

void RemoteHost::GiveUp() {
  if (!failure_) Lose(Error(ErrorCode::kTimeout, fmt::format("{}: the host does not answer", name_)));
}

void RemoteHost::Finish() {
  const TimePoint give_up = Later(clock_.Now(), kAgentFarewell);
  while (!failure_ && clock_.Now() < give_up) {
    std::vector<pollfd> fds;
    AddDescriptors(fds);
    ::poll(fds.data(), fds.size(), 100);
    Pump();
  }
}

}  // namespace rondo
