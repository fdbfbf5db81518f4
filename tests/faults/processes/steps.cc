#include "tests/faults/processes/steps.h"

#include <fmt/core.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <thread>
#include <utility>

#include "tests/faults/processes/saying.h"
#include "tests/faults/processes/wall_clock.h"

extern char** environ;

namespace rondo::processes {
namespace {

using namespace std::chrono_literals;

constexpr Duration kHeldAtMost = std::chrono::minutes(2);
constexpr std::uint64_t kLookForEndEvery = 8;  // number of sums between two checks of whether the file exists
constexpr std::size_t kWorkElements = 100;     // number of elements of each sum in the steps that wait for a file

// An issued sum for which no step has waited yet.
struct Issued {
  std::vector<std::int64_t> values;
  Work work;
};

class Player {
 public:
  Player(const RankFlags& flags, StatusPage& status_page)
      : flags_(flags), status_(status_page), before_(Footprint::Take()), sums_(flags.seed, flags.deadline) {}

  int Run(const std::vector<Step>& steps) {
    Say("pid", {{"pid", getpid()}});
    for (std::size_t at = 0; at < steps.size(); ++at) {
      status_.step = at + 1;
      const Step& step = steps[at];
      const auto method = Methods().find(step.name);
      if (method == Methods().end()) {
        Say("wrong", {{"text", "there is no step '" + step.name + "'"}});
        return 2;
      }
      const Status status = (this->*method->second)(step);
      status_.inside = 0;
      if (status) continue;
      nlohmann::json fields = FieldsOf(status.error());
      fields["step"] = step.name;
      Say("failed", std::move(fields));
      while (at + 1 < steps.size() && steps[at + 1].name != "recover") ++at;
    }
    return End();
  }

 private:
  using Method = Status (Player::*)(const Step&);
  static const std::map<std::string, Method>& Methods();

  // ---- the communicator ----

  Status Connect(const Step& step) {
    ConnectOptions options = flags_.connect;
    options.generation += static_cast<std::uint64_t>(step.Number(0, 0));
    Inside inside(status_);
    auto connected = rondo::Connect(options);
    if (!connected) return Fail(connected.error());
    communicator_ = *std::move(connected);
    sums_.Begin(*communicator_);
    Say("connected", {{"transports", communicator_->Transports()}});
    return {};
  }

  Status Sums(const Step& step) {
    std::optional<std::size_t> elements;
    if (step.arguments.size() > 1) elements = static_cast<std::size_t>(step.Number(1, 0));
    for (std::int64_t i = 0; i < step.Number(0, 1); ++i) RONDO_TRY(Take(elements));
    Say("summed", {{"sums", sums_.taken()}, {"world_size", communicator_->world_size()}});
    return {};
  }

  Status WorkOn(const Step&) {
    for (bool said = false;;) {
      RONDO_TRY(Take());
      if (!std::exchange(said, true)) Say("works");
    }
  }

  Status Until(const Step& step) {
    for (std::int64_t over = 0; over == 0;) {
      for (std::uint64_t i = 0; i < kLookForEndEvery; ++i) RONDO_TRY(Take(kWorkElements));
      over = communicator_->rank() == 0 && Exists(step.Text(0)) ? 1 : 0;
      Inside inside(status_);
      RONDO_TRY(
          communicator_->AllReduce(&over, &over, 1, DataType::kInt64, ReduceOp::kMax, {.timeout = flags_.deadline}));
    }
    Say("summed", {{"sums", sums_.taken()}, {"world_size", communicator_->world_size()}});
    return {};
  }

  Status Call(const Step& step) {
    const auto count = static_cast<std::uint64_t>(step.Number(1, 1));
    const auto type = ParseDataType(step.Text(2));
    const auto op = step.Text(3) == "max" ? ReduceOp::kMax : ReduceOp::kSum;
    const auto root = static_cast<Rank>(step.Number(4, 0));
    if (!type) return Fail(ErrorCode::kInternal, "no type '{}'", step.Text(2));
    const auto room = (count + 1) * static_cast<std::uint64_t>(communicator_->world_size()) * 8;
    std::vector<char> in(room);
    std::vector<char> out(room);
    const OperationOptions options{.timeout = flags_.deadline};
    Inside inside(status_);
    if (step.Text(0) == "all_reduce") return communicator_->AllReduce(in.data(), out.data(), count, *type, op, options);
    if (step.Text(0) == "reduce") return communicator_->Reduce(in.data(), out.data(), count, *type, op, root, options);
    if (step.Text(0) == "broadcast")
      return communicator_->Broadcast(in.data(), out.data(), count, *type, root, options);
    if (step.Text(0) == "all_gather") return communicator_->AllGather(in.data(), out.data(), count, *type, options);
    if (step.Text(0) == "barrier") return communicator_->Barrier(options);
    return Fail(ErrorCode::kInternal, "no collective '{}'", step.Text(0));
  }

  Status Barrier(const Step&) {
    Inside inside(status_);
    return communicator_->Barrier({.timeout = flags_.deadline});
  }

  Status Close(const Step&) {
    Inside inside(status_);
    RONDO_TRY(communicator_->Close());
    Say("closed");
    return {};
  }

  Status Rebuild(const Step& step) {
    Inside inside(status_);
    auto next = communicator_->Rebuild({.min_ranks = static_cast<int>(step.Number(0, 1)), .settle = flags_.settle});
    if (!next) return Fail(next.error());
    JoinThreads();
    communicator_ = *std::move(next);
    sums_.GoOn(*communicator_);
    op_ = ReduceOp::kSum;
    Say("rebuilt", {{"generation", communicator_->report().generation},
                    {"rank", communicator_->rank()},
                    {"world_size", communicator_->world_size()},
                    {"text", communicator_->report().ToString()}});
    return {};
  }

  Status Drop(const Step&) {
    JoinThreads();
    const TimePoint started = SteadyClock().Now();
    communicator_.reset();
    issued_.clear();
    Say("dropped", {{"took_ms", MillisecondsSince(started)}});
    return {};
  }

  Status After(const Step&) {
    if (communicator_ == nullptr) return {};
    const Status status = sums_.Take(*communicator_, 100);
    Say("after", status ? nlohmann::json{{"code", "ok"}} : FieldsOf(status.error()));
    return {};
  }

  Status Async(const Step& step) {
    const auto elements = static_cast<std::size_t>(step.Number(1, 1));
    for (std::int64_t i = 0; i < step.Number(0, 1); ++i) {
      Issued& issued = *issued_.emplace_back(std::make_unique<Issued>());
      issued.values.assign(elements, communicator_->rank() + 1);
      issued.work = communicator_->AllReduceAsync(issued.values.data(), issued.values.data(), elements,
                                                  DataType::kInt64, op_, {.timeout = flags_.deadline});
    }
    ++status_.calls;
    Say("issued", {{"works", issued_.size()}});
    return {};
  }

  // Checks that all sums end, and that all failed ones have the same error code.
  Status Wait(const Step&) {
    const std::int64_t due = std::int64_t{communicator_->world_size()} * (communicator_->world_size() + 1) / 2;
    Status first;
    std::size_t failed = 0;
    Inside inside(status_);
    for (const auto& issued : issued_) {
      if (const Status status = issued->work.Wait(); !status) {
        if (failed++ == 0) first = status;
        if (status.error().code() != first.error().code())
          Say("wrong", {{"text", first.error().ToString() + " beside " + status.error().ToString()}});
      } else if (std::any_of(issued->values.begin(), issued->values.end(),
                             [due](std::int64_t value) { return value != due; })) {
        Say("wrong", {{"text", "a sum that was issued is not what it should be"}});
      }
    }
    Say("waited", {{"works", issued_.size()}, {"failed", failed}});
    issued_.clear();
    return first;
  }

  Status Dump(const Step& step) {
    Say("records", {{"text", communicator_->DumpRecords(step.Text(0))}});
    return {};
  }

  // ---- waiting ----

  Status Hold(const Step& step) {
    Say("held", {{"name", step.Text(0)}});
    const TimePoint until = SteadyClock().Now() + kHeldAtMost;
    while (!Exists(step.Text(0)) && SteadyClock().Now() < until) std::this_thread::sleep_for(1ms);
    return {};
  }

  Status Sleep(const Step& step) {
    ++status_.fired;
    std::this_thread::sleep_for(std::chrono::milliseconds(step.Number(0, 0)));
    return {};
  }

  Status Recover(const Step&) { return {}; }

  // ---- faults ----

  Status Define(const Step& step) {
    const std::string what = step.Text(0);
    const auto when = static_cast<std::uint64_t>(step.Number(1, 1));
    const auto combine = [this, what, when](const void* left, const void* right, void* output, std::size_t elements,
                                            DataType) {
      if (++status_.combines == when && what != "none") {
        ++status_.fired;
        if (what == "kill") raise(SIGKILL);
        if (what == "throw") throw std::runtime_error("thrown by the user's reduction");
        if (what == "slow") std::this_thread::sleep_for(300ms);
      }
      const auto* a = static_cast<const std::int64_t*>(left);
      const auto* b = static_cast<const std::int64_t*>(right);
      auto* sum = static_cast<std::int64_t*>(output);
      for (std::size_t i = 0; i < elements; ++i) sum[i] = a[i] + b[i];
    };
    RONDO_ASSIGN(op_, communicator_->DefineOperation({.name = "user sum", .combine = combine}));
    return {};
  }

  Status Kill(const Step&) {
    ++status_.fired;
    raise(SIGKILL);
    return {};
  }

  Status KillIn(const Step& step) {
    const auto delay = std::chrono::microseconds(step.Number(0, 0));
    std::thread([this, delay] {
      std::this_thread::sleep_for(delay);
      ++status_.fired;
      raise(SIGKILL);
    }).detach();
    return {};
  }

  Status Abort(const Step& step) {
    AbortNow(step.Text(0));
    return {};
  }

  Status AbortIn(const Step& step) {
    const auto delay = std::chrono::microseconds(step.Number(0, 0));
    for (std::int64_t i = 0; i < step.Number(2, 1); ++i)
      threads_.emplace_back([this, delay, reason = step.Text(1)] {
        std::this_thread::sleep_for(delay);
        AbortNow(reason);
      });
    return {};
  }

  Status AbortCallback(const Step& step) {
    RONDO_TRY(Async({.name = "async", .arguments = {"1", "1"}}));
    issued_.back()->work.Then([this, reason = step.Text(0)](const Status&) { AbortNow(reason); });
    return {};
  }

  void AbortNow(const std::string& reason) {
    const TimePoint started = SteadyClock().Now();
    ++status_.fired;
    communicator_->Abort(reason);
    Say("aborted", {{"took_ms", MillisecondsSince(started)}});
  }

  Status OnTerm(const Step&) {
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &term, nullptr);
    for (const auto& [id, name] : Footprint::Take().threads)
      if (id != getpid()) Say("thread", {{"name", name}});
    threads_.emplace_back([this, term] {
      int number = 0;
      sigwait(&term, &number);
      AbortNow("asked to end by SIGTERM");
    });
    return {};
  }

  Status Fork(const Step&) {
    const pid_t child = fork();
    if (child == 0) {
      for (std::thread& thread : threads_) thread.detach();
      issued_.clear();
      communicator_.reset();
      std::exit(0);  // like main, runs the destructors of static objects
    }
    int status = 0;
    if (child > 0) waitpid(child, &status, 0);
    ++status_.fired;
    Say("forked", {{"child", child}, {"exit", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status)}});
    return {};
  }

  Status ForkOn(const Step& step) {
    const pid_t child = fork();
    if (child == 0) {
      sleep(static_cast<unsigned>(step.Number(0, 0)));
      _exit(0);
    }
    ++status_.fired;
    Say("spawned", {{"child", child}});
    return {};
  }

  Status Exec(const Step& step) {
    std::string seconds = step.Text(0);
    std::string program = "sleep";
    char* const arguments[] = {program.data(), seconds.data(), nullptr};
    pid_t child = 0;
    if (posix_spawnp(&child, "sleep", nullptr, nullptr, arguments, environ) != 0)
      return Fail(ErrorCode::kInternal, "no child");
    Say("spawned", {{"child", child}});
    return {};
  }

  Status Jump(const Step& step) {
    JumpWallClock(step.Number(0, 0));
    ++status_.fired;
    Say("jumped");
    return {};
  }

  Status Limit(const Step& step) {
    const bool files = step.Text(0) == "nofile";
    if (step.Text(0) == "off") {
      for (const auto& [resource, limit] : limits_) setrlimit(resource, &limit);
      limits_.clear();
      return {};
    }
    const auto resource = files ? RLIMIT_NOFILE : RLIMIT_NPROC;
    rlimit old{};
    getrlimit(resource, &old);
    limits_.emplace(resource, old);
    const Footprint now = Footprint::Take();
    const auto used = files ? static_cast<std::int64_t>(now.descriptors.rbegin()->first) + 1
                            : static_cast<std::int64_t>(now.threads.size());
    rlimit low = old;
    low.rlim_cur = static_cast<rlim_t>(used + step.Number(1, 0));
    if (setrlimit(resource, &low) != 0) return Fail(ErrorCode::kInternal, "setrlimit");
    cpu_s_ = CpuSeconds();
    ++status_.fired;
    Say("limited", {{"limit", low.rlim_cur}, {"used", used}});
    return {};
  }

  Status User(const Step& step) {
    const auto id = static_cast<uid_t>(step.Number(0, 0));
    if (setgid(id) != 0 || setuid(id) != 0) return Fail(ErrorCode::kInternal, "setuid");
    return {};
  }

  // ---- helpers ----

  // Records in the status page that this rank is inside of the library, and counts the library calls.
  class Inside {
   public:
    explicit Inside(StatusPage& status_page) : status_(status_page) {
      ++status_.calls;
      status_.inside = 1;
    }
    ~Inside() { status_.inside = 0; }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    StatusPage& status_;
  };

  Status Take(std::optional<std::size_t> elements = {}) {
    if (communicator_ == nullptr) return Fail(ErrorCode::kInternal, "there is no communicator");
    Inside inside(status_);
    return sums_.Take(*communicator_, elements, op_);
  }

  bool Exists(const std::string& name) const { return std::filesystem::exists(flags_.folder + "/" + name); }

  static double MillisecondsSince(TimePoint started) {
    return std::chrono::duration<double, std::milli>(SteadyClock().Now() - started).count();
  }

  void JoinThreads() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  int End() {
    JoinThreads();
    const double cpu_s = CpuSeconds() - cpu_s_;
    communicator_.reset();
    issued_.clear();
    for (const auto& [resource, limit] : limits_) setrlimit(resource, &limit);
    const Footprint now = Footprint::Take();
    Say("clean", {{"left_over", now.MoreThan(before_)},
                  {"descriptors", now.descriptors.size()},
                  {"threads", now.threads.size()},
                  {"cpu_s", cpu_s},
                  {"jumped_reads", ReadsOfJumpedClock()}});
    return 0;
  }

  const RankFlags& flags_;
  StatusPage& status_;
  const Footprint before_;
  CheckedSums sums_;
  ReduceOp op_ = ReduceOp::kSum;
  std::vector<std::unique_ptr<Issued>> issued_;  // must outlive the operations, but not the communicator
  std::unique_ptr<Communicator> communicator_;
  std::vector<std::thread> threads_;
  std::map<__rlimit_resource, rlimit> limits_;
  double cpu_s_ = 0;  // CPU time at the moment when the limit was set
};

const std::map<std::string, Player::Method>& Player::Methods() {
  static const std::map<std::string, Method> methods{
      {"connect", &Player::Connect},  {"sums", &Player::Sums},
      {"work", &Player::WorkOn},      {"until", &Player::Until},
      {"call", &Player::Call},        {"barrier", &Player::Barrier},
      {"close", &Player::Close},      {"rebuild", &Player::Rebuild},
      {"drop", &Player::Drop},        {"after", &Player::After},
      {"async", &Player::Async},      {"wait", &Player::Wait},
      {"dump", &Player::Dump},        {"hold", &Player::Hold},
      {"sleep", &Player::Sleep},      {"recover", &Player::Recover},
      {"define", &Player::Define},    {"kill", &Player::Kill},
      {"kill_in", &Player::KillIn},   {"abort", &Player::Abort},
      {"abort_in", &Player::AbortIn}, {"abort_callback", &Player::AbortCallback},
      {"on_term", &Player::OnTerm},   {"fork", &Player::Fork},
      {"fork_on", &Player::ForkOn},   {"exec", &Player::Exec},
      {"jump", &Player::Jump},        {"limit", &Player::Limit},
      {"user", &Player::User},
  };
  return methods;
}

}  // namespace

int RunScript(const RankFlags& flags, const std::vector<Step>& steps, StatusPage& status_page) {
  return Player(flags, status_page).Run(steps);
}

}  // namespace rondo::processes
