#include <utility>

#include "embed/handles.h"

namespace rondo::embed {

Status GiveWork(const rondo_comm& comm, Work started, rondo_work** work) {
  if (started.refused()) return Fail(*started.refused());
  *work = new rondo_work{comm.kept, std::move(started)};
  return {};
}

}  // namespace rondo::embed

using namespace rondo;         // NOLINT(google-build-using-namespace): the C functions below are in no namespace
using namespace rondo::embed;  // NOLINT(google-build-using-namespace)

rondo_code rondo_work_wait(rondo_work* work, rondo_error** error) {
  return Answer(error, [&]() -> Status {
    RONDO_TRY(NotNull(work, "work"));
    return work->work.Wait();
  });
}

rondo_code rondo_work_wait_for(rondo_work* work, uint64_t timeout_ms, rondo_error** error) {
  return Answer(error, [&]() -> Status {
    RONDO_TRY(NotNull(work, "work"));
    RONDO_ASSIGN(const Duration timeout, MillisecondsOf("timeout_ms", timeout_ms));
    return work->work.Wait(Later(SteadyClock().Now(), timeout));
  });
}

rondo_code rondo_work_test(rondo_work* work, rondo_error** error) {
  bool final = true;
  const rondo_code code = Answer(error, [&]() -> Status {
    RONDO_TRY(NotNull(work, "work"));
    const std::optional<Status> ended = work->work.Test();
    final = ended.has_value();
    return ended.value_or(Status{});
  });
  return final ? code : RONDO_NOT_READY;
}

rondo_code rondo_work_then(rondo_work* work, void (*done)(void* user, const rondo_error* error), void* user,
                           rondo_error** error) {
  return Answer(error, [&]() -> Status {
    RONDO_TRY(NotNull(work, "work"));
    RONDO_TRY(NotNull(reinterpret_cast<const void*>(done), "done"));
    work->work.Then([done, user](const Status& status) {
      rondo_error* lent = nullptr;
      HandOver(status, &lent);
      done(user, lent);
      rondo_error_free(lent);
    });
    return {};
  });
}

uint64_t rondo_work_sequence(const rondo_work* work) { return work == nullptr ? 0 : work->work.sequence(); }

rondo_code rondo_work_message(const rondo_work* work, rondo_message* message) {
  if (work == nullptr || message == nullptr) return RONDO_INVALID_ARGUMENT;
  const std::optional<Message> came = work->work.message();
  if (!came) return RONDO_NOT_READY;
  *message = {
      .source = came->source, .tag = came->tag, .dtype = static_cast<rondo_dtype>(came->type), .count = came->count};
  return RONDO_OK;
}

void rondo_work_free(rondo_work* work) { delete work; }
