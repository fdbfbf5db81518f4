// A job of `rondo run`. It starts the ranks on this host and on other hosts, and manages them until all have ended. It
// decides which rank failed first, which ranks must end, which ranks start again, and what the exit code is.
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

// A host and the ranks that run on it.
struct JobPlace {
  RankHost* host;
  RankRange ranks;
};

// Thread rule: only the main thread.
class Job {
 public:
  // All references must outlive the job.
  Job(const LaunchOptions& options, std::vector<JobPlace> places, const Clock& clock, const SignalFd& signals,
      OutputQueue& queue, TaggedOutput& output);

  // Starts all ranks. After an error some ranks may be running; they end when their RankHost objects are destroyed.
  Status Start();
  // Runs the job until all ranks have ended. Returns the exit code of the launcher.
  int SeeThrough();

 private:
  // The phases of the end of a job. Each row says what the launcher has sent to the ranks that still run:
  //   kRunning      nothing, because no rank has failed, or the job continues without the failed ranks
  //   kReporting    nothing yet; after the first failure, ranks have LaunchOptions::report_time to report it themselves
  //   kTerminating  SIGTERM, or the signal that interrupted the launcher
  //   kKilled       SIGKILL
  //   kGivenUp      nothing more; ranks that run even after SIGKILL count as ended
  enum class Phase { kRunning, kReporting, kTerminating, kKilled, kGivenUp };
  struct RankState {
    const JobPlace* place = nullptr;
    bool running = false;
    RankInput input = RankInput::kNone;
    bool is_fed() const { return running && input == RankInput::kFed; }
  };

  int Running() const;
  bool KeepsGoing() const { return options_.keep_going || options_.restarts > 0; }
  // Returns for example "rank 5 on b (pid 123) was killed by SIGKILL".
  std::string Describe(const EndedRank& ended) const;
  std::string NameOf(Rank rank) const;
  template <typename... Args>
  void Say(fmt::format_string<Args...> text, Args&&... args) const;

  Status StartRank(Rank rank, const Variables& more);
  RankInput InputOf(Rank rank) const;
  bool TakesInput() const;  // whether some rank is fed (RankInput::kFed), and no fed rank has too much unread input
  void PumpInput();
  void WaitForNews();
  void TakeSignals();
  void PumpOutput();
  void DrainOutput();
  bool NoteLostOutput();  // records a failure of stdout or stderr; returns whether it is new
  // When ranks must end, the launcher reads their output even if its own queue is full. Otherwise a rank that is
  // blocked in a write might not react to a signal.
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
  OutputQueue& queue_;  // output_ writes to it
  TaggedOutput& output_;
  InputFeed input_;
  std::vector<RankState> ranks_;
  Phase phase_ = Phase::kRunning;
  TimePoint next_phase_at_;
  Duration phase_lasts_ = Duration::zero();
  std::optional<EndedRank> suspect_;  // the rank that probably failed first; the job decides this at judge_at_
  TimePoint judge_at_;
  std::optional<ExitStatus> first_failure_;
  int interrupted_by_ = 0;
  bool output_lost_ = false;
  // The members below are for jobs that continue after ranks have failed.
  std::vector<std::string> lost_;  // a description of each lost rank
  int ended_well_ = 0;
  int restarts_done_ = 0;
};

}  // namespace rondo
