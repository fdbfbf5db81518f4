// A barrier that names the late ranks. Rank 0 collects the answers and decides; every rank gets the verdict. The group
// stays usable.
//
//   rank 0                                  another rank
//   sends "here" to every rank         ->   waits for "here"; if this wait times out, rank 0 is late
//   waits for every rank's answer      <-   answers "present", or "gave up" if its wait has timed out
//   sends the verdict to every rank    ->   waits for the verdict, with a longer timeout
//
// So a late rank learns that it was late when it reaches the barrier. A monitored barrier never fails the group,
// because a receive that times out is withdrawn, and no rank waits for the sends.
#include <pybind11/pybind11.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend.h"
#include "gil.h"

namespace rondo_torch {
namespace {

using std::chrono::milliseconds;

// Monitored barriers have their own tags, at the end of the range of tags. Each barrier uses the next three tags.
constexpr int kFirstTag = (1 << 30) + (1 << 29);
constexpr int kBarriers = 1 << 20;
enum BarrierTag { kHere, kAnswer, kVerdict, kBarrierTags };
static_assert(kFirstTag <= INT32_MAX - kBarriers * kBarrierTags);

// How often a wait checks for signals.
constexpr uint64_t kLookMs = 50;
// Time for the delivery of the verdict. A rank waits for the verdict for twice its timeout plus this time.
constexpr milliseconds kUnderWay{5000};

using Words = std::vector<int32_t>;

// One message with its memory. If this object is destroyed before the operation is final, the operation continues and
// keeps the memory.
class BarrierMessage {
 public:
  using Start = std::function<rondo_code(Words& words, rondo_work** work, rondo_error** error)>;
  BarrierMessage(Words words, const Start& start) : words_(std::make_shared<Words>(std::move(words))) {
    rondo_work* work = nullptr;
    Must([&](rondo_error** error) { return start(*words_, &work, error); });
    work_ = std::shared_ptr<rondo_work>(work, rondo_work_free);
    // The memory must live until the operation is final.
    auto* const kept = new std::shared_ptr<Words>(words_);
    const auto done = [](void* user, const rondo_error*) { delete static_cast<std::shared_ptr<Words>*>(user); };
    rondo_error* error = nullptr;
    if (const rondo_code code = rondo_work_then(work, done, kept, &error); code != RONDO_OK) {
      delete kept;
      Throw(code, error);
    }
  }
  const Words& words() const { return *words_; }
  // Returns whether the message arrived in time. Throws any other error of the operation. Throws Python's exception if
  // a signal handler raises one (Ctrl-C).
  bool Await() const {
    while (true) {
      rondo_error* error = nullptr;
      const rondo_code code = rondo_work_wait_for(work_.get(), kLookMs, &error);
      if (code == RONDO_OK) return true;
      if (code == RONDO_TIMEOUT) {
        rondo_error_free(error);
        return false;
      }
      if (code != RONDO_NOT_READY) Throw(code, error);
      rondo_error_free(error);
      ThrowIfInterrupted();
    }
  }

 private:
  static void ThrowIfInterrupted() {
    const pybind11::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
  }
  std::shared_ptr<Words> words_;
  std::shared_ptr<rondo_work> work_;
};

// The first line of an exception's text; torch adds further lines that name the place in its code.
std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

// The longest timeout of a barrier, chosen so that three times this value does not overflow.
constexpr milliseconds kLongestBarrier{100'000'000'000};

}  // namespace

void RondoBackend::monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) {
  const WithoutGil free;
  const std::string me = Capital(settings_.Name(getRank()));
  // This message is the same as torch's, because torch's tests look for it. LimitOf has a different message.
  TORCH_CHECK(opts.timeout == c10d::kUnsetTimeout || opts.timeout.count() > 0 || opts.timeout < -kLongest, me,
              " timed out in monitoredBarrier: expected a timeout above 0, got ", opts.timeout.count(), " ms");
  const milliseconds limit = std::min(
      opts.timeout == c10d::kUnsetTimeout ? timeout() : LimitOf(opts.timeout, "monitored_barrier"), kLongestBarrier);
  const int first_tag = kFirstTag + barriers_++ % kBarriers * kBarrierTags;
  const auto options_for = [](milliseconds time) {
    rondo_options options;
    rondo_options_init(&options);
    options.timeout_ms = static_cast<uint64_t>(std::max<milliseconds::rep>(time.count(), 1));
    return options;
  };
  const auto send = [&](int to, BarrierTag tag, Words words) {
    const rondo_options options = options_for(std::max(timeout(), limit));
    return BarrierMessage(std::move(words), [&](Words& sent, rondo_work** work, rondo_error** error) {
      return rondo_send_async(comm_.get(), sent.data(), sent.size(), RONDO_INT32, to, first_tag + tag, &options, work,
                              error);
    });
  };
  const auto receive = [&](int from, BarrierTag tag, size_t words, milliseconds time) {
    const rondo_options options = options_for(time);
    return BarrierMessage(Words(words), [&](Words& room, rondo_work** work, rondo_error** error) {
      return rondo_recv_async(comm_.get(), room.data(), room.size(), RONDO_INT32, from, first_tag + tag, &options, work,
                              error);
    });
  };
  const std::string time = std::to_string(limit.count()) + " ms";
  const auto size = static_cast<size_t>(getSize());
  const auto goes_on = [&] { return rondo_comm_failure(comm_.get(), nullptr) == RONDO_OK; };
  const auto what_now = [&] {
    return goes_on() ? " The group can still be used." : " The group has failed and cannot be used any more.";
  };

  if (getRank() != 0) {
    // This message is the same as torch's, because torch's tests look for it.
    const std::string reached =
        me + " successfully reached monitoredBarrier, but received errors while waiting for send/recv from " +
        settings_.Name(0) + ": ";
    Words late;
    try {
      if (!receive(0, kHere, 0, limit).Await()) {
        send(0, kAnswer, {0});
        late = {0};
      } else {
        send(0, kAnswer, {1});
        const BarrierMessage verdict = receive(0, kVerdict, size + 1, 2 * limit + kUnderWay);
        TORCH_CHECK(verdict.Await(), settings_.Name(0), " did not report within ", (2 * limit + kUnderWay).count(),
                    " ms which ranks are late");
        late.assign(verdict.words().begin() + 1, verdict.words().begin() + 1 + verdict.words()[0]);
      }
    } catch (const pybind11::error_already_set&) {
      throw;  // Ctrl-C
    } catch (const std::exception& failed) {
      const std::string cause = FirstLine(failed.what());
      TORCH_CHECK(false, reached, cause, ".", what_now());
    }
    if (late.empty()) return;
    TORCH_CHECK(std::find(late.begin(), late.end(), getRank()) == late.end(), me,
                " came late to monitoredBarrier: ", settings_.Name(0), " gave up after ", time, ".", what_now());
    TORCH_CHECK(false, reached, settings_.Names(late), " did not reach it within ", time, ".", what_now());
  }

  std::vector<BarrierMessage> answers;
  for (int rank = 1; rank < getSize(); ++rank) {
    send(rank, kHere, {});
    answers.push_back(receive(rank, kAnswer, 1, limit));
  }
  Words late, gave_up, failures;
  std::string why;
  for (int rank = 1; rank < getSize(); ++rank) {
    const BarrierMessage& answer = answers[static_cast<size_t>(rank) - 1];
    bool came = false;
    try {
      came = answer.Await();
    } catch (const pybind11::error_already_set&) {
      throw;  // Ctrl-C
    } catch (const std::exception& failed) {
      const std::string cause = FirstLine(failed.what());
      TORCH_CHECK(goes_on(), "[", me, "]: monitoredBarrier failed: ", cause, ".", what_now());
      if (why.empty()) why = cause;
      failures.push_back(rank);
    }
    if (!came) late.push_back(rank);
    if (came && answer.words()[0] == 0) gave_up.push_back(rank);
  }
  // If any rank gave up, rank 0 itself was late. The verdict then names no other rank, even if others were late, too.
  Words verdict = gave_up.empty() ? late : Words{0};
  verdict.insert(verdict.begin(), static_cast<int32_t>(verdict.size()));
  verdict.resize(size + 1);
  const auto is_in = [](const Words& ranks, int rank) {
    return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
  };
  for (int rank = 1; rank < getSize(); ++rank)
    if (!is_in(gave_up, rank) && !is_in(failures, rank)) send(rank, kVerdict, verdict);
  TORCH_CHECK(gave_up.empty(), "[", me, "]: ", me, " came late to monitoredBarrier: ", settings_.Names(gave_up),
              " gave up after ", time, ".", what_now());
  if (late.empty()) return;
  const Words named = wait_all_ranks ? late : Words{late.front()};
  TORCH_CHECK(false, "[", me, "]: ", Capital(settings_.Names(named)), " failed to pass monitoredBarrier in ", time,
              late.size() > named.size() ? ", and so did others: " + settings_.Names(late) : std::string(),
              why.empty() ? "" : ": " + why, ".", what_now());
}

}  // namespace rondo_torch
