#include "backend.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <utility>
#include <vector>

#include "gil.h"
#include "making.h"
#include "rendezvous_name.h"
#include "store.h"
#include "tensors.h"

namespace rondo_torch {
namespace {

using c10d::OpType;
using std::chrono::milliseconds;

// All groups of this process, in the order in which they were made. The process must close them when it ends. The order
// must be the same on all ranks, because each closing group waits for the other ranks.
struct AllGroups {
  std::mutex mutex;
  std::vector<RondoBackend*> all;
};
AllGroups& Groups() {
  static auto* const groups = new AllGroups;  // never destroyed, because groups may outlive static objects
  return *groups;
}

// How long a closing group waits for operations of this rank that other ranks may need, and how often it checks.
constexpr auto kForOperations = std::chrono::seconds(10);
constexpr auto kBetweenLooks = std::chrono::milliseconds(1);

using CommPtr = std::unique_ptr<rondo_comm, void (*)(rondo_comm*)>;

CommPtr Connect(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, milliseconds timeout,
                const Settings& settings, const GivenUp& given_up) {
  const Making making(*store, rank, given_up);
  const auto by_store = std::make_shared<TorchStore>(store, making);
  rondo_connect_options options;
  rondo_connect_options_init(&options);
  const std::string job = UniqueRendezvousName(*store, rank, size, timeout, settings, making);
  options.job = job.c_str();
  options.rank = rank;
  options.world_size = size;
  options.timeout_ms = static_cast<uint64_t>(timeout.count());
  if (!settings.interface.empty()) options.interface_ = settings.interface.c_str();
  if (!settings.addresses.empty()) options.addresses = settings.addresses.c_str();
  if (!settings.transport.empty()) options.transport = settings.transport.c_str();
  if (!settings.record_dir.empty()) options.record_dir = settings.record_dir.c_str();
  options.rails = settings.rails;
  options.fp32_accumulate = settings.fp32_accumulate ? 1 : 0;
  if (settings.job_ranks.size() == static_cast<size_t>(size)) {
    options.group = settings.group.c_str();
    options.job_ranks = settings.job_ranks.data();
  }
  const rondo_store_callbacks functions = TorchStore::Functions(by_store);
  options.store = &functions;
  rondo_comm* comm = nullptr;
  Must([&](rondo_error** error) { return rondo_connect(&options, &comm, error); });
  by_store->EndMaking();
  CommPtr made(comm, rondo_comm_free);
  making.Check();
  return made;
}

}  // namespace

RondoBackend::RondoBackend(c10::intrusive_ptr<c10d::Store> store, int rank, int size, milliseconds timeout,
                           const Settings& settings)
    : Base(rank, size),
      // In torch 2 all groups that have only one rank share one name, so each of them gets its own store.
      store_(size == 1 ? c10::intrusive_ptr<c10d::Store>(c10::make_intrusive<c10d::HashStore>()) : std::move(store)),
      settings_(settings),
      timeout_ms_(LimitOf(timeout, "timeout").count()),
      comm_(nullptr, rondo_comm_free) {
  const auto made = std::make_shared<CommPtr>(nullptr, rondo_comm_free);
  RunInterruptibly([=, store = store_, timeout = this->timeout()](const GivenUp& given_up) {
    *made = Connect(store, rank, size, timeout, settings, given_up);
  });
  comm_ = std::move(*made);
  const std::lock_guard<std::mutex> lock(Groups().mutex);
  Groups().all.push_back(this);
}

RondoBackend::~RondoBackend() {
  const WithoutGil free;
  {
    const std::lock_guard<std::mutex> lock(Groups().mutex);
    auto& all = Groups().all;
    all.erase(std::remove(all.begin(), all.end(), this), all.end());
  }
  Close();
  comm_.reset();
  if (getpid() == process_) {
    shared_.reset();
  } else {
    // A forked child must not destroy the executor in shared_, because the executor's threads belong to the parent.
    (void)shared_.release();
  }
}

void RondoBackend::CloseAll() {
  const std::lock_guard<std::mutex> lock(Groups().mutex);
  const auto until = std::chrono::steady_clock::now() + kForGoodbyes;
  // Signal handlers are not run here, because they could close a group and wait for the lock that this function holds.
  for (RondoBackend* const group : Groups().all) group->CloseBy(until, [] { return false; });
  const WithoutGil free;
  for (RondoBackend* const group : Groups().all)
    if (getpid() == group->process_) group->shared_->executor.AwaitIdle(until);
}

void RondoBackend::CloseBy(std::chrono::steady_clock::time_point until, bool (*is_ended)()) {
  const WithoutGil free;
  if (getpid() != process_ || closed_.exchange(true)) return;  // a forked child must not act for the group
  using Clock = std::chrono::steady_clock;
  if (shared_->owed > 0) {
    // No thread of this rank waits for these operations, but other ranks may need them. Rondo's progress thread
    // advances them.
    const auto end = Clock::now() + kForOperations;
    while (shared_->owed > 0 && !shared_->interrupted && Clock::now() < end) {
      std::this_thread::sleep_for(kBetweenLooks);
      if (is_ended()) shared_->interrupted = true;
    }
    if (shared_->owed > 0)
      Abort(shared_->interrupted
                ? "a signal (Ctrl-C) ended the wait for an operation, and then this rank ended its process group"
                : "this rank ended its process group, and others did not take part in its operations");
    until = Clock::now() + kForGoodbyes;
  }
  const auto left = std::chrono::ceil<milliseconds>(until - Clock::now()).count();
  // The error is ignored, because callers that waited for a failed operation already have it.
  rondo_comm_leave(comm_.get(), static_cast<uint64_t>(std::max<milliseconds::rep>(left, 0)), nullptr);
}

#if TORCH_VERSION_MAJOR >= 2
// The functions split and merge get a store that no other group uses.
c10::intrusive_ptr<Base> RondoBackend::split(const c10::intrusive_ptr<c10d::Store>& store,
                                             const std::vector<int>& ranks, const c10::intrusive_ptr<Options>& opts) {
  const auto me = std::find(ranks.begin(), ranks.end(), getRank());
  if (me == ranks.end()) return nullptr;
  Settings settings = settings_;
  settings.group = settings_.group.empty() ? "split" : "split of " + settings_.group;
  settings.job_ranks.clear();
  for (const int rank : ranks)
    settings.job_ranks.push_back(settings_.job_ranks.empty() ? rank : settings_.job_ranks[static_cast<size_t>(rank)]);
  return c10::make_intrusive<RondoBackend>(store, static_cast<int>(me - ranks.begin()), static_cast<int>(ranks.size()),
                                           opts ? opts->timeout : timeout(), settings);
}

c10::intrusive_ptr<Base> RondoBackend::merge(const c10::intrusive_ptr<c10d::Store>& store,
                                             const c10::intrusive_ptr<Options>& opts, const int& rank,
                                             const int& size) {
  Settings settings = settings_;
  settings.group.clear();  // this rank does not know which ranks of the job are in the merged group
  settings.job_ranks.clear();
  return c10::make_intrusive<RondoBackend>(store, rank, size, opts ? opts->timeout : timeout(), settings);
}
#endif

std::string RondoBackend::Describe() const {
  rondo_bytes text{};
  Must([&](rondo_error** error) { return rondo_comm_describe(comm_.get(), &text, error); });
  const std::string words(static_cast<const char*>(text.data), text.size);
  rondo_bytes_free(&text);
  return words;
}

void RondoBackend::Check() const {
  Must([&](rondo_error** error) { return rondo_comm_failure(comm_.get(), error); });
}

void RondoBackend::NoteRefusal(const char* call, const std::exception& reason) const {
  const auto* const of_torch = dynamic_cast<const c10::Error*>(&reason);
  const std::string words = of_torch != nullptr ? of_torch->what_without_backtrace() : reason.what();
  rondo_comm_note_refusal(comm_.get(), (std::string(call) + ": " + words).c_str());
}

std::shared_ptr<const SideStream> RondoBackend::SideOf(c10::Device device, bool captured) {
  if (device.is_cpu()) return nullptr;
  const std::lock_guard<std::mutex> lock(sides_mutex_);
  std::shared_ptr<const SideStream>& side = sides_[{device.index(), captured}];
  if (side == nullptr) side = SideStream::Make(device);
  return side;
}

WorkPtr RondoBackend::Run(RondoWork::Parts parts, milliseconds timeout, const Start& start, double scale,
                          std::unique_lock<std::mutex>* issuing) {
  rondo_options options;
  rondo_options_init(&options);
  options.timeout_ms = static_cast<uint64_t>(LimitOr(timeout, this->timeout()).count());
  options.scale = scale;
  // Messages in device memory are copied through host memory, and already have a side stream.
  const c10::Device device = parts.side != nullptr
                                 ? c10::Device(c10::kCPU)
                                 : DeviceOf({&parts.held, &parts.outputs, &parts.inputs}, parts.title);
  c10::OptionalDeviceGuard on_device;
  if (!device.is_cpu()) {
    on_device.reset_device(device);
    parts.side = SideOf(device, parts.captured);
    parts.queued = !settings_.blocking_wait || parts.captured;  // a graph cannot make the host wait
    parts.side->FollowCurrent();
    options.memory = RONDO_MEMORY_CUDA;
    options.stream = parts.side->handle();
    options.stream_waits = parts.queued ? RONDO_YES : RONDO_NO;
    // Work on the side stream may end after the operation, so the tensors are kept allocated for this work. Until the
    // operation ends, the operation itself keeps them.
    if (parts.queued || parts.finish)
      for (const Tensors* const tensors : {&parts.held, &parts.outputs, &parts.inputs}) parts.side->Keep(*tensors);
  }
  rondo_work* work = nullptr;
  try {
    // A refused call may complete other works, and their continuations may take the lock `issuing_`. So this thread
    // must not run continuations.
    const HangsElsewhere elsewhere;
    Must([&](rondo_error** error) { return start(&options, &work, error); });
  } catch (...) {
    // A capture succeeds only if the caller's stream waits for the side stream.
    if (parts.queued) parts.side->LetCurrentFollow(parts.side->Mark());
    throw;
  }
  if (issuing != nullptr) issuing->unlock();
  return RondoWork::Follow(getRank(), settings_.profiled_as, std::move(parts), work, *shared_);
}

WorkPtr RondoBackend::RunCollective(RondoWork::Parts parts, milliseconds timeout, const Start& start, double scale) {
  // IsCurrentCaptured calls Python, so it must be called before this thread holds the lock `issuing_`.
  if (parts.side == nullptr) {
    const c10::Device device = DeviceOf({&parts.held, &parts.outputs, &parts.inputs}, parts.title);
    parts.captured = !device.is_cpu() && SideStream::IsCurrentCaptured(device);
  }
  std::unique_lock<std::mutex> issuing(issuing_);
  ++sequence_;
  return Run(std::move(parts), timeout, start, scale, &issuing);
}

WorkPtr RondoBackend::barrier(const c10d::BarrierOptions& opts) {
  return RunCollective({OpType::BARRIER, "barrier"}, opts.timeout,
                       [&](const rondo_options* o, rondo_work** work, rondo_error** error) {
                         return rondo_barrier_async(comm_.get(), o, work, error);
                       });
}

// ---- messages: memory of a device is copied through host memory ----

WorkPtr RondoBackend::send(Tensors& tensors, int to, int tag) {
  const at::Tensor flat = Flat(OnlyOf(tensors, "send").cpu());
  RondoWork::Parts parts{OpType::SEND, "send", tensors, {flat}};
  parts.side = SideOf(tensors.front().device());
  return Run(std::move(parts), timeout(), [&](const rondo_options* o, rondo_work** work, rondo_error** error) {
    return rondo_send_async(comm_.get(), DataOf(flat), BytesOf(flat), RONDO_UINT8, to, tag, o, work, error);
  });
}

WorkPtr RondoBackend::Receive(Tensors& tensors, int from, int tag, OpType type) {
  const at::Tensor& tensor = OnlyOf(tensors, "recv");
  const std::shared_ptr<const SideStream> side = SideOf(tensor.device());
  Packed room;
  if (side == nullptr) {
    room = InPlace(tensor);
  } else {
    side->FollowCurrent();
    side->Keep(tensors);
    room.flat = at::empty(tensor.sizes(), tensor.options().device(c10::kCPU));
    room.back = [flat = room.flat, tensor] { tensor.copy_(flat); };
  }
  RondoWork::Parts parts{
      type, type == OpType::RECV ? "recv" : "recvAnySource", tensors, {room.flat}, room.back, /*receives=*/true};
  parts.side = side;
  return Run(std::move(parts), timeout(), [&](const rondo_options* o, rondo_work** work, rondo_error** error) {
    return rondo_recv_async(comm_.get(), DataOf(room.flat), BytesOf(room.flat), RONDO_UINT8, from, tag, o, work, error);
  });
}

WorkPtr RondoBackend::recv(Tensors& tensors, int from, int tag) { return Receive(tensors, from, tag, OpType::RECV); }

WorkPtr RondoBackend::recvAnysource(Tensors& tensors, int tag) {
  return Receive(tensors, RONDO_ANY_RANK, tag, OpType::RECVANYSOURCE);
}

}  // namespace rondo_torch
