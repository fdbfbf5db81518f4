#include "rendezvous/launchers/pmix_exchange.h"

#include <poll.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "rendezvous/launchers/pmix_library.h"

namespace rondo {
namespace {

constexpr Duration kFirstPause = std::chrono::milliseconds(2);
constexpr Duration kLongestPause = std::chrono::milliseconds(100);

// A pending PMIx_Get_nb and its answer. The callback may run after the caller gave up, so both share this object.
struct Answer {
  std::mutex mutex;
  std::condition_variable came;
  bool here = false;  // true: the answer has arrived; `mutex` guards this field and those below
  pmix::StatusCode status = pmix::kSuccess;
  std::string text;
};

void TakeAnswer(pmix::StatusCode status, pmix::Value* value, void* context) {
  const std::unique_ptr<std::shared_ptr<Answer>> holder(static_cast<std::shared_ptr<Answer>*>(context));
  Answer& answer = **holder;
  const std::lock_guard lock(answer.mutex);
  answer.here = true;
  answer.status = status;
  if (status == pmix::kSuccess && value != nullptr && value->type == pmix::kStringType &&
      value->data.string != nullptr) {
    answer.text = value->data.string;
  }
  answer.came.notify_all();
}

class PmixExchange final : public Exchange {
 public:
  PmixExchange(const Launched& launch, std::shared_ptr<const Clock> clock, const pmix::Library& library)
      : name_("PMIx of " + launch.launcher), job_(launch.job), clock_(std::move(clock)), library_(library) {}
  ~PmixExchange() override {
    if (initialized_) library_.finalize(nullptr, 0);
  }

  Status Open() {
    const pmix::StatusCode status = library_.init(&self_, nullptr, 0);
    if (status != pmix::kSuccess) return Failure("initializing the client", status);
    initialized_ = true;
    return {};
  }

  const std::string& job() const override { return job_; }
  std::size_t max_line_bytes() const override { return 4096; }

  Result<std::string> Share(const std::string& name, const std::optional<std::string>& line,
                            TimePoint deadline) override {
    if (line) {
      RONDO_TRY(Put(name, *line));
      return *line;
    }
    // The server delays its answer until rank 0 has put a value, but only for a limited time. If rank 0 put other
    // values before (an MPI in the same process, an earlier rendezvous), the answer may be "not found" for a while.
    for (Duration pause = kFirstPause;; pause = std::min(pause * 2, kLongestPause)) {
      RONDO_ASSIGN(std::string answer, Ask(name, deadline));
      if (!answer.empty()) return answer;
      if (clock_->Now() + pause >= deadline) return Late();
      poll(nullptr, 0, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(pause).count()));
    }
  }

 private:
  Status Put(const std::string& name, const std::string& line) {
    std::string copy = line;
    pmix::Value value{.type = pmix::kStringType, .data = {.string = copy.data()}};
    pmix::StatusCode status = library_.put(pmix::kGlobalScope, name.c_str(), &value);
    if (status == pmix::kSuccess) status = library_.commit();
    return status == pmix::kSuccess ? Status() : Failure("putting a value", status);
  }

  // Gets rank 0's value; "" if there is none yet.
  Result<std::string> Ask(const std::string& name, TimePoint deadline) {
    pmix::Process rank0 = self_;
    rank0.rank = 0;
    const auto answer = std::make_shared<Answer>();
    auto context = std::make_unique<std::shared_ptr<Answer>>(answer);
    const pmix::StatusCode asked = library_.get_nb(&rank0, name.c_str(), nullptr, 0, TakeAnswer, context.get());
    if (asked == pmix::kNotFound || asked == pmix::kTimeout) return "";
    if (asked != pmix::kSuccess) return Failure("getting rank 0's value", asked);
    static_cast<void>(context.release());  // TakeAnswer owns it now
    std::unique_lock lock(answer->mutex);
    for (TimePoint now = clock_->Now(); !answer->here; now = clock_->Now()) {
      if (now >= deadline) return Late();
      answer->came.wait_for(lock, AtMostAnHour(deadline, now));
    }
    const bool not_yet = answer->status == pmix::kNotFound || answer->status == pmix::kTimeout;
    if (answer->status != pmix::kSuccess && !not_yet) return Failure("getting rank 0's value", answer->status);
    return answer->text;
  }

  tl::unexpected<Error> Late() const {
    return Fail(ErrorCode::kRendezvousTimeout, "{}: rank 0 did not publish the address of its store in time", name_);
  }
  tl::unexpected<Error> Failure(std::string_view doing, pmix::StatusCode status) const {
    return Fail(ErrorCode::kStoreLost, "{}: {} failed: {} ({})", name_, doing, library_.error_string(status), status);
  }

  const std::string name_;
  const std::string job_;
  const std::shared_ptr<const Clock> clock_;
  const pmix::Library library_;
  pmix::Process self_{};
  bool initialized_ = false;
};

}  // namespace

Result<std::unique_ptr<Exchange>> OpenPmixExchange(const Launched& launch, std::shared_ptr<const Clock> clock,
                                                   TimePoint /*deadline: PMIx_Init has its own*/) {
  RONDO_ASSIGN(const pmix::Library library, pmix::Load(launch.library));
  auto exchange = std::make_unique<PmixExchange>(launch, std::move(clock), library);
  RONDO_TRY(exchange->Open());
  return exchange;
}

}  // namespace rondo
