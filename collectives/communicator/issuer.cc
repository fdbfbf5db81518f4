#include "collectives/communicator/issuer.h"

#include <fmt/core.h>

#include <utility>

#include "base/check.h"
#include "base/out_of_memory.h"

namespace rondo {

void Issuer::IssueComparison(OperationQueue::Operation& of) {
  ResultComparison& comparison = near_.queue.Compare(of);
  OperationRequest request;
  request.descriptor = {.count = 1, .collective = Collective::kAllGather, .type = DataType::kUint32};
  request.input = &comparison.own;
  request.output = comparison.all.data();
  const Status sound = near_.checker.Check(request, {.timeout = of.request.timeout, .compare_results = false});
  RONDO_CHECK(sound, "{}", sound.error().ToString());
  request.descriptor.sequence = comparison.sequence;
  request.comparison = &comparison;
  near_.queue.At(comparison.sequence).request = request;
}

Status Issuer::MayIssue() {
  if (near_.graphs.Check() || near_.failure.has_failed()) return Fail(*near_.failure.cause());
  if (near_.closing.has_begun())
    return Fail(ErrorCode::kClosed, "rank {} has closed this communicator", near_.names.self());
  return {};
}

Result<Sequence> Issuer::Issue(const OperationRequest& request, bool at_once) {
  const OperationQueue::Issuer issuer(near_.queue);
  if (!issuer)
    return Fail(ErrorCode::kInvalidArgument, "two threads issue operations on one communicator at the same time");
  RONDO_TRY(MayIssue());
  RONDO_ASSIGN(OperationQueue::Operation* const operation, near_.queue.Reserve(request));
  const Sequence sequence = operation->request.descriptor.sequence;
  const Sequence last = request.compares ? sequence + 1 : sequence;
  if (request.compares) IssueComparison(*operation);
  if (request.staging != nullptr) RONDO_TRY(near_.device->Enter(request.stream, sequence, request.stream_waits));
  if (at_once && request.staging == nullptr && !request.compares &&
      request.descriptor.algorithm == Algorithm::kIntranode && near_.progress.lock().TryEnter()) {
    const bool idle = near_.operations.MayRunAtOnce(request);
    near_.queue.PublishAsOwner(sequence);
    if (idle && near_.operations.RunAtOnce()) {
      // No deadline or time of issue is set for an operation that ends at once.
      near_.records.OnRanAtOnce(operation->request, near_.clock);
    } else {
      NoteIssue(*operation);
      if (idle && near_.current.runner().running()) near_.records.OnStart(/*looked=*/false);
    }
    near_.progress.lock().Leave(/*work=*/false);  // this thread waits next, and then advances the remaining operations
  } else {
    NoteIssue(*operation);
    if (request.compares) NoteIssue(near_.queue.At(last));
    // Publish writes issued(), and this thread then reads the progress lock. An owner that falls asleep releases that
    // lock, and then reads issued(). So at least one of the two threads sees what the other wrote.
    near_.queue.Publish(last);
  }
  return last;
}

void Issuer::NoteIssue(OperationQueue::Operation& pending) {
  // Reading the clock takes half as long as a small operation in shared memory. So if the deadline is distant, the
  // coarse clock is used.
  const OperationRequest& request = pending.request;
  const bool far = request.timeout >= 100 * Clock::kCoarse;
  pending.issued = far ? near_.clock.CoarseNow() : near_.clock.Now();
  pending.deadline = Later(pending.issued, request.timeout);
  if (near_.streams.is_on()) near_.streams.OnIssued(pending);
  near_.records.OnIssued(pending);
}

// A failure may be found when no thread waits, or by a thread whose own operation had just completed. Then the next
// call ends all operations, because there may be no progress thread and no other call that could do so.
Error Issuer::WhyRefused(Collective collective, const Error& found) {
  if (!near_.failure.has_failed()) {
    // A call that is refused because of a limit may succeed later, so it is not noted as refused.
    const bool is_wrong = found.code() == ErrorCode::kInvalidArgument || found.code() == ErrorCode::kUnsupported;
    if (is_wrong)
      IfMemoryAllows([&] { near_.closing.NoteRefusal(fmt::format("{}: {}", Name(collective), found.message())); });
    return found;
  }
  if (!near_.failure.has_ended()) near_.operations.ProgressOnce();
  return *near_.failure.cause();
}

Result<Sequence> Issuer::Take(OperationRequest& request, const OperationOptions& options, bool at_once) {
  return near_.failure.GuardCall("issuing an operation", [&]() -> Result<Sequence> {
    RONDO_TRY(near_.checker.Check(request, options));
    return request.descriptor.on_devices ? near_.devices.Issue(request) : Issue(request, at_once);
  });
}

Status Issuer::Run(OperationRequest&& request, const OperationOptions& options) {
  const Result<Sequence> sequence = Take(request, options, /*at_once=*/true);
  if (!sequence) return Fail(WhyRefused(request.descriptor.collective, sequence.error()));
  if (near_.queue.completed() >= *sequence) return {};
  return near_.operations.WaitFor(*sequence, TimePoint::max());
}

}  // namespace rondo
