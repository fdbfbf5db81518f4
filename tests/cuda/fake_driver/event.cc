#include "tests/cuda/fake_driver/event.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "tests/cuda/fake_driver/graph.h"
#include "tests/cuda/fake_driver/shared_event.h"
#include "tests/cuda/fake_driver/state.h"

namespace rondo::cuda::fake {
namespace {

std::shared_ptr<Event> Find(const Call& call, CUevent handle) {
  const auto found = call.state.events.find(handle);
  return found == call.state.events.end() ? nullptr : found->second;
}

void Advance(std::atomic<std::uint64_t>& number, std::uint64_t to) {
  std::uint64_t was = number.load();
  while (was < to && !number.compare_exchange_weak(was, to)) {
  }
}

}  // namespace

Event::~Event() {
  if (counts != nullptr) munmap(counts, file.bytes);
  if (file.descriptor >= 0) close(file.descriptor);
}

Mark::Mark(const std::shared_ptr<Event>& event) {
  if (event->counts != nullptr) {
    event_ = event;
    number_ = event->counts->recorded.load();
  } else {
    record_ = event->latest;
  }
}

bool Mark::Done() const {
  if (event_ != nullptr) return event_->counts->completed.load() >= number_;
  return record_ == nullptr || record_->done;
}

bool ShareCounts(Event& event, SharedFile file) {
  event.file = file;
  void* const at = mmap(nullptr, file.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor, 0);
  if (at == MAP_FAILED) return false;
  event.counts = static_cast<SharedCounts*>(at);  // the counts begin at 0
  event.times = false;
  return true;
}

CUevent Keep(State& state, std::shared_ptr<Event> event) {
  const auto handle = reinterpret_cast<CUevent>(event.get());
  state.events[handle] = std::move(event);
  return handle;
}

}  // namespace rondo::cuda::fake

using namespace rondo::cuda::fake;  // NOLINT(google-build-using-namespace): the functions below are the driver's

CUresult cuEventCreate(CUevent* event, unsigned int flags) {
  return Do("EventCreate", Needs::kContext, [&](Call& call) {
    constexpr unsigned kKnown = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    const bool shared = (flags & CU_EVENT_INTERPROCESS) != 0;
    const bool times = (flags & CU_EVENT_DISABLE_TIMING) == 0;
    if (event == nullptr || (flags & ~kKnown) != 0 || (shared && times)) return CUDA_ERROR_INVALID_VALUE;
    auto made = std::make_shared<Event>();
    made->context = call.context;
    made->times = times;
    if (shared) {
      const auto file = SharedFile::Make(sizeof(SharedCounts));
      if (!file || !ShareCounts(*made, *file)) return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *event = Keep(call.state, std::move(made));
    return CUDA_SUCCESS;
  });
}

CUresult cuEventDestroy(CUevent handle) {
  return Do("EventDestroy", Needs::kGiveBack, [&](Call& call) {
    return call.state.events.erase(handle) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  });
}

CUresult cuEventRecord(CUevent handle, CUstream stream_handle) {
  return Do("EventRecord", Needs::kContext, [&](Call& call) {
    const auto event = Find(call, handle);
    const auto stream = FindStream(call, stream_handle);
    if (event == nullptr || stream == nullptr || event->context != stream->context) return CUDA_ERROR_INVALID_HANDLE;
    if (stream->captured != nullptr) {
      if (stream->captured->capture->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
      event->captured = std::make_shared<Captured>(*stream->captured);
      return CUDA_SUCCESS;
    }
    State& state = call.state;
    auto record = std::make_shared<Record>();
    const auto number = std::make_shared<std::uint64_t>(0);
    Work work;
    work.run = [&state, event, record, number](std::uint64_t) {
      const std::unique_lock lock(state.mutex);
      record->done = true;
      record->at = std::chrono::steady_clock::now();
      if (event->counts != nullptr) Advance(event->counts->completed, *number);
      return true;
    };
    const CUresult queued = Enqueue(stream, std::move(work));
    if (queued != CUDA_SUCCESS) return queued;
    event->latest = std::move(record);
    event->captured = nullptr;
    // The queued work reads `number` only after it has taken the lock, which this call still holds.
    if (event->counts != nullptr) *number = event->counts->recorded.fetch_add(1) + 1;
    return CUDA_SUCCESS;
  });
}

CUresult cuEventQuery(CUevent handle) {
  return Do("EventQuery", Needs::kContext, [&](Call& call) {
    const auto event = Find(call, handle);
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (event->captured != nullptr) return CUDA_ERROR_CAPTURED_EVENT;
    if (event->context->error != CUDA_SUCCESS) return event->context->error;
    return Mark(event).Done() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}

CUresult cuEventSynchronize(CUevent handle) {
  return Do("EventSynchronize", Needs::kContext, [&](Call& call) {
    const auto event = Find(call, handle);
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (event->captured != nullptr) return CUDA_ERROR_CAPTURED_EVENT;
    const Mark mark(event);
    while (!mark.Done() && event->context->error == CUDA_SUCCESS) {
      if (mark.polls()) {
        call.state.finished.wait_for(call.lock, std::chrono::microseconds(50));
      } else {
        call.state.finished.wait(call.lock);
      }
    }
    return event->context->error;
  });
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent start_handle, CUevent end_handle) {
  return Do("EventElapsedTime", Needs::kContext, [&](Call& call) {
    const auto start = Find(call, start_handle);
    const auto end = Find(call, end_handle);
    for (const auto& event : {start, end})
      if (event == nullptr || !event->times || event->latest == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (start->captured != nullptr || end->captured != nullptr) return CUDA_ERROR_CAPTURED_EVENT;
    if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!start->latest->done || !end->latest->done) return CUDA_ERROR_NOT_READY;
    *milliseconds = std::chrono::duration<float, std::milli>(end->latest->at - start->latest->at).count();
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamWaitEvent(CUstream stream_handle, CUevent event_handle, unsigned int flags) {
  return Do("StreamWaitEvent", Needs::kContext, [&](Call& call) {
    const auto event = Find(call, event_handle);
    const auto stream = FindStream(call, stream_handle);
    if (event == nullptr || stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (flags > CU_EVENT_WAIT_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
    if (event->captured != nullptr) return WaitFor(*stream, *event->captured);
    const bool ever_recorded = event->latest != nullptr || event->counts != nullptr;
    if (stream->captured != nullptr) {
      if (!ever_recorded) return CUDA_SUCCESS;
      stream->captured->capture->broken = true;  // the wait would depend on work outside the capture
      return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    const Mark mark(event);
    Work work;
    work.polls = mark.polls();
    work.ready = [mark] { return mark.Done(); };
    work.run = [](std::uint64_t) { return true; };
    return Enqueue(stream, std::move(work));
  });
}
