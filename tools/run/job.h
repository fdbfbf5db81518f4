// A job of `rondo run`: starts its ranks, on whatever hosts they are, and sees them through: who fails, who is told to
// end, who is started again, and what the exit code is.
#pragma once

#include <fmt/core.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "tools/run/host_list.h"
#include "tools/run/input_feed.h"
#include "tools/run/launch.h"
#include "tools/run/output_queue.h"
#include "tools/run/rank_host.h"
#include "tools/run/signal_fd.h"
#include "tools/run/tagged_output.h"

namespace rondo {

// A host and the ranks that it gets.
struct JobPlace {
  RankHost* host;
  RankRange ranks;
};

// Thread rule: one thread, the main one.
class Job {
 public:
  // All outlive it.
  Job(const LaunchOptions& options, std::vector<JobPlace> places, const Clock& clock, const SignalFd& signals,
      OutputQueue& queue, TaggedOutput& output);

  // An error means that not all ranks could be started; those that were end with their hosts.
  Status Start();
  // The exit code, when all have ended.
  int SeeThrough();

 private:
  // What the ranks that still run have been told: nothing, then (after the first failure) nothing yet, then to end.
  enum class Phase { kRunning, kLastWords, kTerminating, kKilled, kGivenUp };
  struct RankState {
    const JobPlace* place = nullptr;
    bool running = false;
    RankInput input = RankInput::kNone;
    bool is_fed() const { return running && input == RankInput::kFed; }
  };

  int Running() const;
  bool KeepsGoing() const { return options_.keep_going || options_.restarts > 0; }
  // "rank 5 on b (pid 123) was killed by SIGKILL"
  std::string Describe(const EndedRank& ended) const;
  std::string NameOf(Rank rank) const;
  template <typename... Args>
  void Say(fmt::format_string<Args...> text, Args&&... args) const;

  Status StartRank(Rank rank, const Variables& more);
  RankInput InputOf(Rank rank) const;
  bool TakesInput() const;  // whether a rank is fed, and all that are take more
  void PumpInput();
  void WaitForNews();
  void TakeSignals();
  void PumpOutput();
  void DrainOutput();
  bool NoteLostOutput();  // whether it was lost now
  // Ranks that are to end must not be held up in their writes, by which they would not hear of it.
  bool TakesOutput() const { return phase_ != Phase::kRunning || !queue_.IsFull(); }
  void TakeEnded();
  void GoOnWithout(const EndedRank& ended);
  void Restart(Rank rank);
  void SayWhoWasLost() const;
  static bool WasKilled(const ExitStatus& status);
  void Suspect(const EndedRank& ended);
  void Judge();
  void Escalate();
  void StopTogether();
  void GoOn();
  void SignalAll(int signal);
  void Enter(Phase phase, Duration lasts);

  const LaunchOptions& options_;
  const std::vector<JobPlace> places_;
  const Clock& clock_;
  const SignalFd& signals_;
  OutputQueue& queue_;  // where `output_` ends
  TaggedOutput& output_;
  InputFeed input_;
  std::vector<RankState> ranks_;
  Phase phase_ = Phase::kRunning;
  TimePoint next_phase_at_;
  Duration phase_lasts_ = Duration::zero();
  std::optional<EndedRank> suspect_;  // who seems to have failed first, until judge_at_
  TimePoint judge_at_;
  std::optional<ExitStatus> first_failure_;
  int interrupted_by_ = 0;
  bool output_lost_ = false;
  // Where the job goes on without ranks that fail.
  std::vector<std::string> lost_;  // each in words
  int ended_well_ = 0;
  int restarts_done_ = 0;
};

}  // namespace rondo
