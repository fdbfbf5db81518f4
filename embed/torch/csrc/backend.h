// Makes Rondo a backend of torch.distributed. Implements the interface of c10d's process groups with a rondo_comm.
//
// The same source supports torch 1.13, where a backend is a c10d::ProcessGroup, and torch 2, where it is a
// c10d::Backend.
#pragma once

#include <rondo.h>
#include <torch/version.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>
#if TORCH_VERSION_MAJOR >= 2
#include <torch/csrc/distributed/c10d/Backend.hpp>
#endif

#include "interrupt.h"
#include "rank_names.h"
#include "work.h"

namespace rondo_torch {

#if TORCH_VERSION_MAJOR >= 2
using Base = c10d::Backend;
#else
using Base = c10d::ProcessGroup;
#endif
using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;

// The settings of a group in addition to c10d's arguments. An empty value means Rondo's default.
struct Settings : RankNames {
  std::string profiled_as = "rondo";  // the prefix of the group's events in torch's profiler
  std::string interface, addresses, transport, record_dir;
  uint32_t rails = 1;
  bool fp32_accumulate = false;  // true: sums, averages and products of bfloat16 and float16 are computed in float32
  // true: for an operation on a device, wait() blocks the host thread, and throws if the operation has failed. false:
  // wait() makes the caller's stream wait instead.
  bool blocking_wait = true;
};

// Thread rule: any thread may call it; operations are issued one after the other.
class RondoBackend final : public Base {
 public:
  RondoBackend(c10::intrusive_ptr<c10d::Store> store, int rank, int size, std::chrono::milliseconds timeout,
               const Settings& settings);
  ~RondoBackend() override;
  // The name must always be "rondo", even if Rondo replaces another backend: torch casts any backend named "gloo" to
  // Gloo's class.
  const std::string getBackendName() const override { return "rondo"; }

  // Sends goodbyes and waits a short time for the other ranks' goodbyes. Before that, waits a limited time for
  // operations that other ranks may need. Ctrl-C ends this wait.
  void Close() { CloseBy(std::chrono::steady_clock::now() + kForGoodbyes, EndsBySignal); }
  void Abort(const std::string& reason) { rondo_comm_abort(comm_.get(), reason.c_str()); }
  // The timeout of operations that specify none.
  std::chrono::milliseconds timeout() const { return std::chrono::milliseconds(timeout_ms_); }
  std::string Describe() const;
  // Throws the group's error if the group has failed. An operation in a launched graph can fail the group, too.
  void Check() const;
  // Closes every group, at the end of the process. All groups share one short time limit.
  static void CloseAll();

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& opts) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& opts) override;
  WorkPtr allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& opts) override;
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& opts) override;
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& opts) override;
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& opts) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& opts) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& opts) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) override;
  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& opts) override;
  void monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) override;
  void setSequenceNumberForGroup() override {}  // does nothing, because every rank counts its collectives from 0
  uint64_t getSequenceNumberForGroup() override { return sequence_; }

  // Functions that torch 2 adds. They have no `override`, because some exist only since torch 2.1. Older versions never
  // call them.
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts);
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& opts);
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts) { return allreduce(tensors, opts); }
  void setTimeout(std::chrono::milliseconds timeout) { timeout_ms_ = LimitOf(timeout, "set_timeout").count(); }
  void shutdown() { Close(); }
  void abort() { Abort("aborted"); }
#if TORCH_VERSION_MAJOR >= 2
  bool supportsSplitting() const { return true; }
  c10::intrusive_ptr<Base> split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                 const c10::intrusive_ptr<Options>& opts);
  c10::intrusive_ptr<Base> merge(const c10::intrusive_ptr<c10d::Store>& store, const c10::intrusive_ptr<Options>& opts,
                                 const int& rank, const int& size);
  c10::intrusive_ptr<Options> getBackendOptions() { return c10::make_intrusive<Options>("rondo", timeout()); }
#endif

 private:
  // How long a closing group waits for the goodbyes of ranks that close too. Ranks that close later find this rank's
  // goodbye.
  static constexpr std::chrono::milliseconds kForGoodbyes{50};

  void CloseBy(std::chrono::steady_clock::time_point until, bool (*is_ended)());
  using Start = std::function<rondo_code(const rondo_options*, rondo_work**, rondo_error**)>;
  // Starts an operation by `start`. Releases the lock `issuing` when the operation has started. After that, this thread
  // may run continuations of other futures.
  WorkPtr Run(RondoWork::Parts parts, std::chrono::milliseconds timeout, const Start& start, double scale = 1,
              std::unique_lock<std::mutex>* issuing = nullptr);
  // Like Run, for collectives: only one thread at a time issues a collective of the group.
  WorkPtr RunCollective(RondoWork::Parts parts, std::chrono::milliseconds timeout, const Start& start,
                        double scale = 1);
  // Records that this rank refused a call. If other ranks wait for this rank in the same call, they get the reason when
  // this rank leaves.
  void NoteRefusal(const char* call, const std::exception& reason) const;
  WorkPtr Receive(Tensors& tensors, int from, int tag, c10d::OpType type);
  WorkPtr SumSparse(at::Tensor& tensor, const c10d::AllreduceOptions& opts);
  // The sum of coalesced sparse tensors in host memory.
  at::Tensor SumOfSparse(const at::Tensor& mine, const rondo_options& options);
  // The side stream of a device; null for the host. Captured operations use a separate stream, so that nothing of the
  // other operations becomes part of the graph.
  std::shared_ptr<const SideStream> SideOf(c10::Device device, bool captured = false);

  const c10::intrusive_ptr<c10d::Store> store_;
  const Settings settings_;
  const int process_ = getpid();
  std::atomic<std::chrono::milliseconds::rep> timeout_ms_;
  std::unique_ptr<Shared> shared_ = std::make_unique<Shared>();
  std::unique_ptr<rondo_comm, void (*)(rondo_comm*)> comm_;
  std::mutex issuing_;
  std::atomic<uint64_t> sequence_{0};
  std::atomic<bool> closed_{false};
  std::atomic<int> barriers_{0};  // the number of monitored barriers so far
  std::mutex sides_mutex_;
  std::map<std::pair<c10::DeviceIndex, bool>, std::shared_ptr<const SideStream>> sides_;
};

}  // namespace rondo_torch
