#include "tools/run/remote_agent.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/version.h"
#include "rendezvous/job_token.h"
#include "rendezvous/launchers/rondo_run.h"
#include "tools/common/output.h"
#include "tools/run/agent_words.h"
#include "tools/run/group_guard.h"
#include "tools/run/local_host.h"
#include "tools/run/signal_fd.h"

namespace rondo {
namespace {

// The limit for output that waits until the launcher reads it. If more output waits, the agent reads no output from its
// ranks.
constexpr std::size_t kMaxQueuedBytes = 1 << 20;
// The interval of `pulse`. If the launcher's host has crashed or cannot be reached, its connection is not closed, and
// TCP detects this only when the agent sends.
constexpr Duration kPulse = std::chrono::seconds(5);
// The longest wait at the end for a launcher that does not read the remaining output.
constexpr Duration kFarewell = std::chrono::seconds(5);

class Agent {
 public:
  Agent(AgentStream& launcher, const SignalFd& signals, const Clock& clock, GroupGuard& guard)
      : launcher_(launcher), signals_(signals), clock_(clock), guard_(guard) {}

  int Run() {
    while (running_ > 0 || phase_ == Phase::kServing) {
      Wait();
      TakeSignals();
      TakeWords();
      PassOnOutput();
      SayWhatWasTaken();
      TellEnded();
      Escalate();
    }
    if (host_) host_->Finish();
    const TimePoint give_up = clock_.Now() + kFarewell;
    while (launcher_.queued() > 0 && clock_.Now() < give_up) {
      pollfds_.clear();
      launcher_.AddDescriptors(pollfds_);
      ::poll(pollfds_.data(), pollfds_.size(), 100);
      launcher_.Receive();  // otherwise poll would return at once while there is unread input
      launcher_.Flush();
    }
    return exit_code_;
  }

 private:
  enum class Phase { kServing, kTerminating, kKilled };

  void Wait() {
    pollfds_ = {{signals_.get(), POLLIN, 0}};
    launcher_.AddDescriptors(pollfds_);
    if (host_ && launcher_.queued() < kMaxQueuedBytes) host_->AddDescriptors(pollfds_);
    const TimePoint until = phase_ == Phase::kTerminating ? std::min(kill_at_, pulse_at_) : pulse_at_;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - clock_.Now()).count();
    ::poll(pollfds_.data(), pollfds_.size(), static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000)));
    if (clock_.Now() < pulse_at_) return;
    pulse_at_ = clock_.Now() + kPulse;
    if (launcher_.queued() == 0) launcher_.Send({AgentWordKind::kPulse, {}});
  }

  void TakeSignals() {
    for (int signal = signals_.Next(); signal != 0; signal = signals_.Next())
      if (SignalFd::IsInterrupt(signal)) End();
  }

  void TakeWords() {
    launcher_.Flush();
    launcher_.Receive();
    while (true) {
      const auto word = launcher_.Next();
      const Status obeyed = !word ? Status(Fail(word.error())) : *word ? Obey(**word) : Status();
      if (!obeyed) {
        PrintError("rondo run-agent: {}\n", obeyed.error().ToString());
        exit_code_ = 1;
        End();
        return;
      }
      if (!*word) break;
    }
    if (launcher_.over()) End();
  }

  Status Obey(const AgentWord& word) {
    switch (word.kind) {
      case AgentWordKind::kJob: return TakeJob(word);
      case AgentWordKind::kStart: return StartRank(word);
      case AgentWordKind::kInput: {
        RONDO_ASSIGN(const std::int64_t rank, word.Number(0, 0, INT32_MAX));
        RONDO_ASSIGN(const std::string bytes, word.Text(1));
        if (!host_) return Fail(ErrorCode::kProtocol, "the launcher sent input before it sent a job");
        host_->Feed(static_cast<Rank>(rank), bytes);
        given_[static_cast<Rank>(rank)] += bytes.size();
        return {};
      }
      case AgentWordKind::kSignal: {
        RONDO_ASSIGN(const std::int64_t number, word.Number(0, 1, SIGRTMAX));
        if (host_) host_->Signal(static_cast<int>(number));
        return {};
      }
      default:
        return Fail(ErrorCode::kProtocol, "'{}' is not a message that a launcher sends", static_cast<char>(word.kind));
    }
  }

  Status TakeJob(const AgentWord& word) {
    if (host_) return Fail(ErrorCode::kProtocol, "the launcher sent a second job");
    RONDO_ASSIGN(const std::string directory, word.Text(0));
    RONDO_ASSIGN(const std::int64_t grace_ms, word.Number(1, 0, INT32_MAX * std::int64_t{1000}));
    RONDO_ASSIGN(const std::int64_t words, word.Number(2, 1, static_cast<std::int64_t>(word.texts.size()) - 3));
    grace_ = std::chrono::milliseconds(grace_ms);
    RankProcessOptions ranks;
    ranks.guard = &guard_;
    ranks.command.assign(word.texts.begin() + 3, word.texts.begin() + 3 + words);
    RONDO_ASSIGN(ranks.environment, word.VariablesFrom(static_cast<std::size_t>(3 + words)));
    // The job's identity and secret must be those of the launcher, not those of this process's environment.
    ranks.leave_out = [](std::string_view variable) {
      return DescribesOneProcess(variable) || variable == kTokenVariable;
    };
    ranks.output = [this](Rank rank, int stream, std::string_view bytes) {
      launcher_.Send({AgentWordKind::kOutput, {std::to_string(rank), std::to_string(stream), std::string(bytes)}});
    };
    if (::chdir(directory.c_str()) != 0) {
      launcher_.Send(
          {AgentWordKind::kRefused,
           {fmt::format("the working directory {} is not available there: {}", directory, strerror(errno))}});
      return {};
    }
    ranks.environment.emplace_back("PWD", directory);
    host_ = std::make_unique<LocalHost>("", std::move(ranks));
    launcher_.Send({AgentWordKind::kReady, {}});
    return {};
  }

  Status StartRank(const AgentWord& word) {
    RONDO_ASSIGN(const std::int64_t rank, word.Number(0, 0, INT32_MAX));
    RONDO_ASSIGN(const std::int64_t fed, word.Number(1, 0, 1));
    RONDO_ASSIGN(const Variables environment, word.VariablesFrom(2));
    if (!host_) return Fail(ErrorCode::kProtocol, "the launcher asked for a rank before it sent a job");
    if (phase_ != Phase::kServing) return {};
    if (const Status started =
            host_->Start(static_cast<Rank>(rank), environment, fed == 1 ? RankInput::kFed : RankInput::kNone);
        !started) {
      Report({static_cast<Rank>(rank), 0, ExitStatus{127, 0}, started.error().message()});
    } else {
      ++running_;
    }
    return {};
  }

  void PassOnOutput() {
    if (host_ && launcher_.queued() < kMaxQueuedBytes) host_->Pump();
  }

  // Reports how much input the ranks have taken, so that the launcher can limit the input that waits here.
  void SayWhatWasTaken() {
    for (auto& [rank, given] : given_) {
      const std::size_t taken = given - std::min(given, host_->Unread(rank));
      if (taken == 0) continue;
      launcher_.Send({AgentWordKind::kTaken, {std::to_string(rank), std::to_string(taken)}});
      given -= taken;
    }
  }

  void TellEnded() {
    if (!host_) return;
    for (const EndedRank& ended : host_->TakeEnded()) {
      --running_;
      Report(ended);
    }
  }

  void Report(const EndedRank& ended) {
    launcher_.Send({AgentWordKind::kEnded,
                    {std::to_string(ended.rank), std::to_string(ended.pid), std::to_string(ended.status.code),
                     std::to_string(ended.status.signal), ended.why}});
  }

  void End() {
    if (phase_ != Phase::kServing) return;
    phase_ = Phase::kTerminating;
    kill_at_ = Later(clock_.Now(), grace_);
    if (!host_) return;
    host_->Signal(SIGTERM);
    host_->Signal(SIGCONT);  // needed because the launcher may have stopped the ranks
  }

  void Escalate() {
    if (phase_ != Phase::kTerminating || clock_.Now() < kill_at_) return;
    phase_ = Phase::kKilled;
    if (host_) host_->Signal(SIGKILL);
  }

  AgentStream& launcher_;
  const SignalFd& signals_;
  const Clock& clock_;
  GroupGuard& guard_;
  std::vector<pollfd> pollfds_;
  std::unique_ptr<LocalHost> host_;    // null until the launcher has sent the job
  std::map<Rank, std::size_t> given_;  // input bytes that were fed to each rank and not yet reported as taken
  Duration grace_ = Duration::zero();
  Phase phase_ = Phase::kServing;
  TimePoint kill_at_;
  TimePoint pulse_at_;
  int running_ = 0;
  int exit_code_ = 0;
};

// Moves a standard stream to another descriptor and opens /dev/null in its place. So text that is printed by mistake
// cannot corrupt the protocol, and no rank inherits the connection.
Fd TakeStandardStream(int number) {
  Fd taken(::fcntl(number, F_DUPFD_CLOEXEC, 3));
  const Fd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (nothing) ::dup2(nothing.get(), number);
  return taken;
}

}  // namespace

int RunAgent(const Environment& environment, const Clock& clock) {
  if (::isatty(STDIN_FILENO) != 0) {
    PrintError("rondo run-agent: rondo run starts this program on other hosts; it cannot be used by hand\n");
    return 2;
  }
  const SignalFd signals;
  GroupGuard guard;
  AgentStream launcher(TakeStandardStream(STDIN_FILENO), TakeStandardStream(STDOUT_FILENO));
  const std::string connection = environment("SSH_CONNECTION").value_or("");
  launcher.SendRaw(kAgentMagic);
  std::string caller, caller_port, own;  // "10.0.0.1 51234 10.0.0.2 22"
  std::istringstream(connection) >> caller >> caller_port >> own;
  launcher.Send({AgentWordKind::kHello, {std::string(kRondoVersion), caller, own}});
  return Agent(launcher, signals, clock, guard).Run();
}

}  // namespace rondo
