#include "tools/run/job.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "tools/common/output.h"

namespace rondo {
namespace {

// After the first rank ended with an error, the job waits for this time before it names the rank that failed first. A
// rank that was killed earlier may be reported later, because it runs on another host, or because the kernel is still
// releasing its resources.
constexpr Duration kLateNews = std::chrono::milliseconds(300);

}  // namespace

Job::Job(const LaunchOptions& options, std::vector<JobPlace> places, const Clock& clock, const SignalFd& signals,
         OutputQueue& queue, TaggedOutput& output)
    : options_(options),
      places_(std::move(places)),
      clock_(clock),
      signals_(signals),
      queue_(queue),
      output_(output),
      ranks_(static_cast<std::size_t>(options.ranks)) {
  for (const JobPlace& place : places_)
    for (Rank rank = place.ranks.first; rank < place.ranks.first + place.ranks.count; ++rank)
      ranks_[static_cast<std::size_t>(rank)].place = &place;
}

Status Job::Start() {
  for (Rank rank = 0; rank < options_.ranks; ++rank) RONDO_TRY(StartRank(rank, {}));
  return {};
}

int Job::SeeThrough() {
  while (Running() > 0) {
    WaitForNews();
    TakeSignals();
    PumpInput();
    PumpOutput();
    TakeEnded();
    Escalate();
  }
  if (suspect_) Judge();
  for (const JobPlace& place : places_) place.host->Dismiss();
  for (const JobPlace& place : places_) place.host->Finish();
  output_.Finish();
  if (interrupted_by_ == 0 && KeepsGoing() && !lost_.empty()) SayWhoWasLost();
  DrainOutput();
  if (interrupted_by_ != 0) return 128 + interrupted_by_;
  if (KeepsGoing() && ended_well_ > 0) return output_lost_ ? 1 : 0;
  return first_failure_ ? first_failure_->AsExitCode() : (output_lost_ ? 1 : 0);
}

int Job::Running() const {
  return static_cast<int>(std::count_if(ranks_.begin(), ranks_.end(), [](auto& rank) { return rank.running; }));
}

template <typename... Args>
void Job::Say(fmt::format_string<Args...> text, Args&&... args) const {
  output_.WriteOwn(fmt::format("{}: {}\n", options_.program, fmt::format(text, std::forward<Args>(args)...)));
}

std::string Job::NameOf(Rank rank) const {
  const std::string& host = ranks_[static_cast<std::size_t>(rank)].place->host->name();
  return host.empty() ? fmt::format("rank {}", rank) : fmt::format("rank {} on {}", rank, host);
}

std::string Job::Describe(const EndedRank& ended) const {
  if (!ended.why.empty()) return fmt::format("{} {}", NameOf(ended.rank), ended.why);
  return fmt::format("{} (pid {}) {}", NameOf(ended.rank), ended.pid, ended.status.ToString());
}

Status Job::StartRank(Rank rank, const Variables& more) {
  RankState& state = ranks_[static_cast<std::size_t>(rank)];
  Variables environment{{"RANK", std::to_string(rank)},
                        {"WORLD_SIZE", std::to_string(options_.ranks)},
                        {"LOCAL_RANK", std::to_string(rank - state.place->ranks.first)},
                        {"LOCAL_WORLD_SIZE", std::to_string(state.place->ranks.count)}};
  environment.insert(environment.end(), more.begin(), more.end());
  state.input = InputOf(rank);
  RONDO_TRY(state.place->host->Start(rank, environment, state.input));
  state.running = true;
  if (state.is_fed() && input_.has_ended()) state.place->host->Feed(rank, {});
  return {};
}

RankInput Job::InputOf(Rank rank) const {
  const std::vector<Rank>& wanted = options_.stdin_to;
  if (std::find(wanted.begin(), wanted.end(), rank) == wanted.end()) return RankInput::kNone;
  const bool here = ranks_[static_cast<std::size_t>(rank)].place->host->is_here();
  return here && wanted.size() == 1 && InputFeed::CanBeInherited() ? RankInput::kOurs : RankInput::kFed;
}

bool Job::TakesInput() const {
  bool any = false;
  for (Rank rank = 0; rank < options_.ranks; ++rank) {
    const RankState& state = ranks_[static_cast<std::size_t>(rank)];
    if (!state.is_fed()) continue;
    if (state.place->host->Unread(rank) >= InputFeed::kMaxUnread) return false;
    any = true;
  }
  return any && phase_ == Phase::kRunning;
}

void Job::PumpInput() {
  if (!TakesInput()) return;
  const bool typed = input_.Pump([this](std::string_view bytes) {
    for (Rank rank = 0; rank < options_.ranks; ++rank) {
      const RankState& state = ranks_[static_cast<std::size_t>(rank)];
      if (state.is_fed()) state.place->host->Feed(rank, bytes);
    }
  });
  if (typed) output_.OnTerminalInput();
}

void Job::WaitForNews() {
  std::vector<pollfd> fds{{signals_.get(), POLLIN, 0}};
  queue_.AddDescriptors(fds);
  if (TakesInput()) input_.AddDescriptors(fds);
  if (TakesOutput())
    for (const JobPlace& place : places_) place.host->AddDescriptors(fds);
  TimePoint until = output_.next();
  if (phase_ != Phase::kRunning && phase_ != Phase::kGivenUp) until = std::min(until, next_phase_at_);
  if (suspect_) until = std::min(until, judge_at_);
  int timeout_ms = -1;
  if (until != TimePoint::max()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - clock_.Now()).count();
    timeout_ms = static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
  }
  ::poll(fds.data(), fds.size(), timeout_ms);
}

void Job::TakeSignals() {
  for (int signal = signals_.Next(); signal != 0; signal = signals_.Next()) {
    if (signal == SIGUSR1 || signal == SIGUSR2) {  // the ranks define what these signals mean
      SignalAll(signal);
      continue;
    }
    if (signal == SIGTSTP) StopTogether();
    if (signal == SIGCONT) GoOn();
    if (!SignalFd::IsInterrupt(signal)) continue;
    if (interrupted_by_ != 0) {  // the second interrupt kills the ranks at once
      SignalAll(SIGKILL);
      Enter(Phase::kKilled, options_.grace);
      continue;
    }
    interrupted_by_ = signal;
    SignalAll(signal);
    Enter(Phase::kTerminating, options_.grace);
  }
}

// Stops the ranks by SIGSTOP, which no program can ignore. If a rank continued, it would wait for the stopped ranks
// until its timeout.
void Job::StopTogether() {
  SignalAll(SIGSTOP);
  SignalFd::Stop();
  GoOn();
}

// Continues the stopped ranks. The time limit of the current phase starts again, because ranks could not use the time
// while they were stopped.
void Job::GoOn() {
  SignalAll(SIGCONT);
  if (phase_ != Phase::kRunning && phase_ != Phase::kGivenUp) Enter(phase_, phase_lasts_);
  if (suspect_) judge_at_ = clock_.Now() + kLateNews;
}

void Job::PumpOutput() {
  queue_.Flush();
  if (TakesOutput())
    for (const JobPlace& place : places_) place.host->Pump();
  output_.ShowHeldLines();
  if (!NoteLostOutput()) return;
  SignalAll(SIGTERM);
  Enter(Phase::kTerminating, options_.grace);
}

// Called when the reader of our output has closed it (| head), or when the disk is full. The job must then end, because
// its output is lost.
bool Job::NoteLostOutput() {
  if (queue_.failure() == 0 || output_lost_) return false;
  output_lost_ = true;
  if (queue_.failure() != EPIPE)
    Say("{} cannot be written: {}; ending all ranks", queue_.failed_stream(), std::strerror(queue_.failure()));
  return true;
}

// All ranks have ended, but the reader of their remaining output may be slow, so the launcher waits for it. After an
// interrupt this wait is limited.
void Job::DrainOutput() {
  TimePoint until = interrupted_by_ != 0 ? Later(clock_.Now(), options_.grace) : TimePoint::max();
  for (queue_.Flush(); !queue_.IsEmpty() && clock_.Now() < until; queue_.Flush()) {
    std::vector<pollfd> fds{{signals_.get(), POLLIN, 0}};
    queue_.AddDescriptors(fds);
    ::poll(fds.data(), fds.size(), 1000);
    for (int signal = signals_.Next(); signal != 0; signal = signals_.Next()) {
      if (signal == SIGTSTP) SignalFd::Stop();
      if (!SignalFd::IsInterrupt(signal)) continue;
      if (interrupted_by_ != 0) return;
      interrupted_by_ = signal;
      until = Later(clock_.Now(), options_.grace);
    }
  }
  NoteLostOutput();
}

void Job::TakeEnded() {
  for (const JobPlace& place : places_) {
    for (const EndedRank& ended : place.host->TakeEnded()) {
      ranks_[static_cast<std::size_t>(ended.rank)].running = false;
      if (KeepsGoing()) {
        GoOnWithout(ended);
      } else if (ended.status.failed()) {
        Suspect(ended);
      }
    }
  }
  if (suspect_ && (WasKilled(suspect_->status) || clock_.Now() >= judge_at_)) Judge();
}

void Job::GoOnWithout(const EndedRank& ended) {
  if (!ended.status.failed()) {
    ++ended_well_;
    return;
  }
  if (interrupted_by_ != 0 || output_lost_) return;
  if (!first_failure_) first_failure_ = ended.status;
  lost_.push_back(Describe(ended));
  const int left = Running();
  // A restarted rank needs other ranks that continue to run. If one rank has exited with 0, the others will probably
  // end soon, so no rank is restarted.
  const bool again = restarts_done_ < options_.restarts && left > 0 && ended_well_ == 0;
  Say("{}; {}{}", lost_.back(), left > 0 ? fmt::format("continuing with {}", left) : "no rank is left",
      again ? ", and starting it again" : "");
  if (again) Restart(ended.rank);
}

void Job::Restart(Rank rank) {
  ++restarts_done_;
  const Status again = StartRank(rank, {{"RONDO_JOIN", "1"}, {"RONDO_RESTART", std::to_string(restarts_done_)}});
  if (!again) Say("{} cannot be started again: {}", NameOf(rank), again.error().message());
}

void Job::SayWhoWasLost() const {
  Say("{} lost: {}; {} ended well", lost_.size() == 1 ? "one rank was" : fmt::format("{} ranks were", lost_.size()),
      fmt::join(lost_, "; "), ended_well_);
}

// Whether a signal from outside killed the rank. SIGABRT, SIGPIPE and SIGTERM do not count. A rank can also end by one
// of these when it has lost another rank, for example after an uncaught exception.
bool Job::WasKilled(const ExitStatus& status) {
  return status.signal != 0 && status.signal != SIGABRT && status.signal != SIGPIPE && status.signal != SIGTERM;
}

// If several ranks have ended, the job suspects a rank that was killed, because the others probably ended as a
// consequence.
void Job::Suspect(const EndedRank& ended) {
  if (first_failure_ || interrupted_by_ != 0 || output_lost_) return;
  if (!suspect_) {
    judge_at_ = clock_.Now() + kLateNews;
    Enter(Phase::kReporting, options_.report_time);
  }
  if (!suspect_ || (!WasKilled(suspect_->status) && WasKilled(ended.status))) suspect_ = ended;
}

void Job::Judge() {
  const EndedRank culprit = *std::exchange(suspect_, std::nullopt);
  if (interrupted_by_ != 0 || output_lost_) return;
  first_failure_ = culprit.status;
  if (first_failure_->signal == 0 && options_.explained_exit_code == first_failure_->code) return;
  const int left = Running();
  Say("{}{}", Describe(culprit),
      left > 0 ? fmt::format("; ending the other {}", left == 1 ? "rank" : fmt::format("{} ranks", left)) : "");
}

void Job::Escalate() {
  if (phase_ == Phase::kRunning || phase_ == Phase::kGivenUp || clock_.Now() < next_phase_at_) return;
  if (phase_ == Phase::kReporting) {
    SignalAll(SIGTERM);
    Enter(Phase::kTerminating, options_.grace);
    return;
  }
  if (phase_ == Phase::kTerminating) {
    for (Rank rank = 0; rank < options_.ranks; ++rank)
      if (ranks_[static_cast<std::size_t>(rank)].running) Say("{} did not end after SIGTERM; killing it", NameOf(rank));
    SignalAll(SIGKILL);
    Enter(Phase::kKilled, options_.grace);
    return;
  }
  phase_ = Phase::kGivenUp;
  for (const JobPlace& place : places_) place.host->GiveUp();
  TakeEnded();
}

void Job::SignalAll(int signal) {
  for (const JobPlace& place : places_) place.host->Signal(signal);
}

void Job::Enter(Phase phase, Duration lasts) {
  phase_ = phase;
  phase_lasts_ = lasts;
  next_phase_at_ = clock_.Now() + lasts;
}

}  // namespace rondo
