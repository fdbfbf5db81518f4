#include "tools/launch.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "collectives/connect.h"
#include "rendezvous/job_token.h"
#include "rendezvous/launchers/rondo_run.h"
#include "rendezvous/tcp_store_server.h"
#include "rendezvous/tls_settings.h"
#include "tools/rank_process.h"

namespace rondo {
namespace {

// The signals that concern a launcher, as a descriptor. Blocked in this thread and all that it starts from now on.
class Signals {
 public:
  Signals() {
    sigset_t set;
    ::sigemptyset(&set);
    for (int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1}) ::sigaddset(&set, signal);
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    ::signal(SIGPIPE, SIG_IGN);
    fd_ = ::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  }
  ~Signals() { ::close(fd_); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int fd() const { return fd_; }
  // The next one that came, 0 when none did.
  int Next() const {
    signalfd_siginfo info;
    return ::read(fd_, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  int fd_ = -1;
};

class Job {
 public:
  Job(const LaunchOptions& options, const Clock& clock, const Signals& signals)
      : options_(options), clock_(clock), signals_(signals) {}

  using Variables = std::vector<std::pair<std::string, std::string>>;

  Status Start(const Variables& common_environment) {
    common_environment_ = common_environment;
    for (Rank rank = 0; rank < options_.ranks; ++rank) {
      RONDO_ASSIGN(std::unique_ptr<RankProcess> started, StartRank(rank, {}));
      processes_.push_back(std::move(started));
    }
    return {};
  }

  int SeeThrough() {
    while (Running() > 0) {
      WaitForNews();
      TakeSignals();
      PumpOutput();
      ReapEnded();
      Escalate();
    }
    for (auto& process : processes_) process->FinishOutput();
    if (interrupted_by_ != 0) return 128 + interrupted_by_;
    if (KeepsGoing() && !lost_.empty()) SayWhoWasLost();
    if (KeepsGoing() && ended_well_ > 0) return output_lost_ ? 1 : 0;
    return first_failure_ ? first_failure_->AsExitCode() : (output_lost_ ? 1 : 0);
  }

 private:
  // What the ranks that still run have been told: nothing, then (after the first failure) nothing yet, then to end.
  enum class Phase { kRunning, kLastWords, kTerminating, kKilled };

  int Running() const {
    return static_cast<int>(std::count_if(processes_.begin(), processes_.end(), [](auto& p) { return p->running(); }));
  }

  template <typename... Args>
  void Say(fmt::format_string<Args...> text, Args&&... args) const {
    fmt::print(stderr, "{}: {}\n", options_.program, fmt::format(text, std::forward<Args>(args)...));
  }

  void WaitForNews() {
    std::vector<pollfd> fds{{signals_.fd(), POLLIN, 0}};
    for (const auto& process : processes_)
      for (int fd : process->output_fds()) fds.push_back({fd, POLLIN, 0});
    int timeout_ms = -1;
    if (phase_ == Phase::kLastWords || phase_ == Phase::kTerminating) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(next_phase_at_ - clock_.Now()).count();
      timeout_ms = static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
    }
    ::poll(fds.data(), fds.size(), timeout_ms);
  }

  void TakeSignals() {
    for (int signal = signals_.Next(); signal != 0; signal = signals_.Next()) {
      if (signal == SIGCHLD) continue;
      if (signal == SIGUSR1) {  // a request for a report, where the ranks know how
        SignalAll(signal);
        continue;
      }
      if (interrupted_by_ != 0) {  // asked twice: at once
        SignalAll(SIGKILL);
        continue;
      }
      interrupted_by_ = signal;
      SignalAll(signal);
      Enter(Phase::kTerminating, options_.grace);
    }
  }

  void PumpOutput() {
    const bool alive = std::all_of(processes_.begin(), processes_.end(), [](auto& p) { return p->PumpOutput(); });
    if (alive || output_lost_) return;
    output_lost_ = true;  // nobody reads any more (| head): the job has no purpose left
    SignalAll(SIGTERM);
    Enter(Phase::kTerminating, options_.grace);
  }

  bool KeepsGoing() const { return options_.keep_going || options_.restarts > 0; }

  Result<std::unique_ptr<RankProcess>> StartRank(Rank rank, const Variables& more) const {
    const std::string world = std::to_string(options_.ranks);
    RankProcessOptions process;
    process.rank = rank;
    process.command = options_.command;
    process.tag_output = options_.tag_output;
    process.environment = common_environment_;
    process.leave_out = [with_token = options_.with_token](std::string_view variable) {
      return DescribesOneProcess(variable) || (!with_token && variable == kTokenVariable);
    };
    process.environment.insert(process.environment.end(), {{"RANK", std::to_string(rank)},
                                                           {"WORLD_SIZE", world},
                                                           {"LOCAL_RANK", std::to_string(rank)},
                                                           {"LOCAL_WORLD_SIZE", world}});
    process.environment.insert(process.environment.end(), more.begin(), more.end());
    return RankProcess::Start(process);
  }

  void ReapEnded() {
    if (KeepsGoing()) {
      ReapAndGoOn();
    } else {
      ReapAndEndOthers();
    }
  }

  void ReapAndGoOn() {
    for (auto& process : processes_) {
      if (!process->running()) continue;
      const std::optional<ExitStatus> status = process->Reap();
      if (!status) continue;
      if (!status->failed()) {
        ++ended_well_;
        continue;
      }
      if (interrupted_by_ != 0 || output_lost_) continue;
      if (!first_failure_) first_failure_ = *status;
      lost_.push_back(fmt::format("rank {} (pid {}) {}", process->rank(), process->pid(), status->ToString()));
      const int left = Running();
      // Whoever is left has gone on without it, or has ended: a newcomer would find nobody.
      const bool again = restarts_done_ < options_.restarts && left > 0 && ended_well_ == 0;
      Say("{}; {}{}", lost_.back(), left > 0 ? fmt::format("going on with {}", left) : "no rank is left",
          again ? ", and starting it again" : "");
      if (again) Restart(process);
    }
  }

  void Restart(std::unique_ptr<RankProcess>& process) {
    process->FinishOutput();
    ++restarts_done_;
    auto again = StartRank(process->rank(), {{"RONDO_JOIN", "1"}, {"RONDO_RESTART", std::to_string(restarts_done_)}});
    if (again) {
      process = *std::move(again);
    } else {
      Say("rank {} cannot be started again: {}", process->rank(), again.error().message());
    }
  }

  void SayWhoWasLost() const {
    Say("{} lost: {}; {} ended well", lost_.size() == 1 ? "one rank was" : fmt::format("{} ranks were", lost_.size()),
        fmt::join(lost_, "; "), ended_well_);
  }

  // Of several that ended since the last look, one killed by a signal came first: the others saw it and gave up.
  void ReapAndEndOthers() {
    std::optional<std::pair<const RankProcess*, ExitStatus>> culprit;
    for (auto& process : processes_) {
      if (!process->running()) continue;
      const std::optional<ExitStatus> status = process->Reap();
      if (!status || !status->failed()) continue;
      if (!culprit || (culprit->second.signal == 0 && status->signal != 0)) culprit = {process.get(), *status};
    }
    if (!culprit || first_failure_ || interrupted_by_ != 0 || output_lost_) return;
    first_failure_ = culprit->second;
    Enter(Phase::kLastWords, options_.last_words);
    if (first_failure_->signal == 0 && options_.explained_exit_code == first_failure_->code) return;
    const int left = Running();
    Say("rank {} (pid {}) {}{}", culprit->first->rank(), culprit->first->pid(), culprit->second.ToString(),
        left > 0 ? fmt::format("; ending the other {}", left == 1 ? "rank" : fmt::format("{} ranks", left)) : "");
  }

  void Escalate() {
    if (phase_ == Phase::kRunning || phase_ == Phase::kKilled || clock_.Now() < next_phase_at_) return;
    if (phase_ == Phase::kLastWords) {
      SignalAll(SIGTERM);
      Enter(Phase::kTerminating, options_.grace);
      return;
    }
    for (const auto& process : processes_)
      if (process->running()) Say("rank {} did not end when asked; killing it", process->rank());
    SignalAll(SIGKILL);
    phase_ = Phase::kKilled;
  }

  void SignalAll(int signal) {
    for (const auto& process : processes_) process->Signal(signal);
  }

  void Enter(Phase phase, Duration lasts) {
    phase_ = phase;
    next_phase_at_ = clock_.Now() + lasts;
  }

  const LaunchOptions& options_;
  const Clock& clock_;
  const Signals& signals_;
  Variables common_environment_;
  std::vector<std::unique_ptr<RankProcess>> processes_;  // by rank; a restarted one in its place
  Phase phase_ = Phase::kRunning;
  TimePoint next_phase_at_;
  std::optional<ExitStatus> first_failure_;
  int interrupted_by_ = 0;
  bool output_lost_ = false;
  // Where the job goes on without ranks that fail.
  std::vector<std::string> lost_;  // each in words
  int ended_well_ = 0;
  int restarts_done_ = 0;
};

// Ours, if we have one, else a new one; "": none.
Result<std::string> TokenOfRanks(const LaunchOptions& options) {
  if (!options.with_token) return "";
  RONDO_ASSIGN(std::string token, TokenText("", ProcessEnvironment));
  if (!token.empty()) return token;
  return MakeTokenText();
}

// What ranks and store have in common. A key that neither flag nor environment names comes from the token, and is a
// new one where there is none.
Result<TlsOptions> TlsOfRanks(const LaunchOptions& options, const JobToken* token) {
  std::optional<TlsOptions> given;
  if (options.tls) given = TlsOptions{.mode = *options.tls};
  if (token != nullptr) return FindTls(given, ProcessEnvironment, token);
  RONDO_ASSIGN(const std::string new_psk, NewTlsPsk());
  return FindTls(given, [&](const std::string& name) {
    auto value = ProcessEnvironment(name);
    return !value && name == kTlsPskVariable ? TlsPskText(new_psk) : value;
  });
}

}  // namespace

Result<int> Launch(const LaunchOptions& options, const Clock& clock) {
  const Signals signals;  // before the store's thread, which must not take them
  RONDO_ASSIGN(const std::string token, TokenOfRanks(options));
  TcpStoreServer::Options serve;
  serve.host = "127.0.0.1";
  RONDO_ASSIGN(serve.token, MakeJobToken(token));
  RONDO_ASSIGN(const TlsOptions tls, TlsOfRanks(options, serve.token.get()));
  RONDO_ASSIGN(serve.tls, TlsContext::Make(tls));
  RONDO_ASSIGN(const std::unique_ptr<TcpStoreServer> store, TcpStoreServer::Start(serve));
  std::random_device entropy;
  Job job(options, clock, signals);
  std::vector<std::pair<std::string, std::string>> environment{
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", std::to_string(store->port())},
      {"RONDO_LAUNCHER", options.program},
      {"RONDO_EXTERNAL_STORE", "1"},
      {"RONDO_JOB", fmt::format("{:08x}{:08x}", entropy(), entropy())},
  };
  if (!token.empty()) environment.emplace_back(kTokenVariable, token);
  if (options.tls) environment.emplace_back(kTlsVariable, Name(*options.tls));
  // With a token they have it from there, or find ours.
  if (token.empty() && tls.mode == TlsMode::kPsk) environment.emplace_back(kTlsPskVariable, TlsPskText(tls.psk));
  if (options.timeout) {
    const double timeout_s = std::chrono::duration<double>(*options.timeout).count();
    environment.emplace_back("RONDO_TIMEOUT", fmt::format("{}", timeout_s));
  }
  const Status started = job.Start(environment);
  if (!started && started.error().code() == ErrorCode::kInvalidArgument) {
    fmt::print(stderr, "{}: {}\n", options.program, started.error().message());
    return 127;
  }
  if (!started) return Fail(started.error());
  const int code = job.SeeThrough();
  if (const std::string uninvited = store->stats().Uninvited(); !uninvited.empty())
    fmt::print(stderr, "{}: at its store: {}\n", options.program, uninvited);
  return code;
}

std::vector<std::string> CommandOfARank() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::vector<std::string> command;
  for (std::size_t at = 0; at < all.size(); at += command.back().size() + 1) command.emplace_back(&all[at]);
  std::array<char, 4096> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  if (length > 0) command.front() = std::string(path.data(), static_cast<std::size_t>(length));
  command.push_back("--launched");
  return command;
}

}  // namespace rondo
