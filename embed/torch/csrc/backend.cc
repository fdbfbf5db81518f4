#include "backend.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <set>
#include <thread>
#include <utility>

#include "gil.h"
#include "tensors.h"

namespace rondo_torch {
namespace {

using c10d::OpType;
using std::chrono::milliseconds;

// Every group of this process, for its end.
struct AllGroups {
  std::mutex mutex;
  std::set<RondoBackend*> all;
};
AllGroups& Groups() {
  static auto* const groups = new AllGroups;  // never destroyed: groups may end later than anything static
  return *groups;
}

// How long a group that ends waits for those of the others.
constexpr auto kGoodbye = std::chrono::seconds(10);

// What Rondo reads or writes in one piece; `back`, where there is one, puts results where they belong.
struct Packed {
  at::Tensor flat;
  std::function<void()> back;
};

void* DataOf(const at::Tensor& tensor) { return tensor.data_ptr(); }

std::vector<uint64_t> BytesOfEach(const Tensors& tensors) {
  std::vector<uint64_t> bytes;
  for (const at::Tensor& tensor : tensors) bytes.push_back(BytesOf(tensor));
  return bytes;
}

bool AreEqual(const std::vector<uint64_t>& counts) {
  return std::all_of(counts.begin(), counts.end(), [&](uint64_t count) { return count == counts.front(); });
}

// Whether they lie packed, one behind the other: then nothing has to be copied.
bool LiePacked(const Tensors& tensors) {
  const auto* at = static_cast<const char*>(tensors.front().data_ptr());
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.is_contiguous() || tensor.data_ptr() != at) return false;
    at += BytesOf(tensor);
  }
  return true;
}

// Where results for `tensors` are to be written, and how they get where they belong.
Packed RoomOf(const Tensors& tensors) {
  if (LiePacked(tensors)) return {tensors.front(), nullptr};
  const at::Tensor room = RoomFor(tensors);
  return {room, [room, tensors] { Unpack(room, tensors); }};
}

// One tensor that is read and written.
Packed InPlace(const at::Tensor& tensor) {
  if (tensor.is_contiguous()) return {tensor, nullptr};
  const at::Tensor flat = tensor.contiguous();
  return {flat, [flat, tensor] { tensor.copy_(flat); }};
}

at::Tensor AsReal(const at::Tensor& tensor, rondo_op op, const char* what) {
  if (!tensor.is_complex()) return tensor;
  TORCH_CHECK(op == RONDO_SUM || op == RONDO_AVG || op == RONDO_PREMUL_SUM, what,
              ": of complex elements there is only the sum and the average");
  return at::view_as_real(tensor);
}

// The blocks of one side of an alltoall_base, in bytes.
std::vector<uint64_t> Splits(const at::Tensor& tensor, const std::vector<int64_t>& splits, int size, const char* what) {
  const int64_t rows = tensor.dim() == 0 ? 0 : tensor.size(0);
  const uint64_t row = rows == 0 ? 0 : BytesOf(tensor) / static_cast<uint64_t>(rows);
  if (splits.empty()) {
    TORCH_CHECK(rows % size == 0, what, ": ", rows, " rows are not equal parts for ", size, " ranks");
    return std::vector<uint64_t>(static_cast<size_t>(size), row * static_cast<uint64_t>(rows / size));
  }
  TORCH_CHECK(splits.size() == static_cast<size_t>(size), what, ": ", splits.size(), " splits for ", size, " ranks");
  std::vector<uint64_t> bytes;
  int64_t sum = 0;
  for (const int64_t split : splits) {
    TORCH_CHECK(split >= 0, what, ": a split of ", split);
    sum += split;
    bytes.push_back(row * static_cast<uint64_t>(split));
  }
  TORCH_CHECK(sum == rows, what, ": splits of ", sum, " rows in all, of a tensor of ", rows);
  return bytes;
}

}  // namespace

RondoBackend::RondoBackend(c10::intrusive_ptr<c10d::Store> store, int rank, int size, milliseconds timeout,
                           const Settings& settings)
    : Base(rank, size), store_(store), timeout_(timeout), comm_(nullptr, rondo_comm_free) {
  rondo_connect_options options;
  rondo_connect_options_init(&options);
  const rondo_foreign_store functions = store_.Functions();
  options.store = &functions;
  options.rank = rank;
  options.world_size = size;
  options.timeout_ms = static_cast<uint64_t>(timeout.count());
  if (!settings.interface.empty()) options.interface_ = settings.interface.c_str();
  if (!settings.addresses.empty()) options.addresses = settings.addresses.c_str();
  if (!settings.transport.empty()) options.transport = settings.transport.c_str();
  if (!settings.record_dir.empty()) options.record_dir = settings.record_dir.c_str();
  options.rails = settings.rails;
  rondo_comm* comm = nullptr;
  Must([&](rondo_error** error) { return rondo_connect(&options, &comm, error); });
  comm_.reset(comm);
  const std::lock_guard<std::mutex> lock(Groups().mutex);
  Groups().all.insert(this);
}

RondoBackend::~RondoBackend() {
  const WithoutGil free;
  {
    const std::lock_guard<std::mutex> lock(Groups().mutex);
    Groups().all.erase(this);
  }
  Close();
  comm_.reset();
  executor_.reset();
}

void RondoBackend::CloseAll() {
  const std::lock_guard<std::mutex> lock(Groups().mutex);
  for (RondoBackend* const group : Groups().all) group->Close();
}

void RondoBackend::Close() {
  if (closed_.exchange(true)) return;
  std::mutex mutex;
  std::condition_variable done;
  bool over = false;
  std::thread watch([&] {
    std::unique_lock<std::mutex> lock(mutex);
    if (!done.wait_for(lock, kGoodbye, [&] { return over; }))
      rondo_comm_abort(comm_.get(), "this rank ended its process group, and others did not");
  });
  rondo_comm_close(comm_.get(), nullptr);  // what failed, whoever waited has been told
  {
    const std::lock_guard<std::mutex> lock(mutex);
    over = true;
  }
  done.notify_all();
  watch.join();
}

std::string RondoBackend::Describe() const {
  rondo_bytes text{};
  Must([&](rondo_error** error) { return rondo_comm_describe(comm_.get(), &text, error); });
  const std::string words(static_cast<const char*>(text.data), text.size);
  rondo_bytes_free(&text);
  return words;
}

WorkPtr RondoBackend::Run(RondoWork::Parts parts, milliseconds timeout, const Start& start, double scale) {
  rondo_options options;
  rondo_options_init(&options);
  if (timeout.count() > 0) options.timeout_ms = static_cast<uint64_t>(timeout.count());
  options.scale = scale;
  rondo_work* work = nullptr;
  Must([&](rondo_error** error) { return start(&options, &work, error); });
  return RondoWork::Follow(getRank(), std::move(parts), work, *executor_);
}

WorkPtr RondoBackend::RunCollective(RondoWork::Parts parts, milliseconds timeout, const Start& start, double scale) {
  const std::lock_guard<std::mutex> lock(issuing_);
  ++sequence_;
  return Run(std::move(parts), timeout, start, scale);
}

// ---- one tensor a rank ----

WorkPtr RondoBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) {
  const at::Tensor& tensor = OnlyOf(tensors, "broadcast");
  const Packed packed = InPlace(tensor);
  void* const data = DataOf(packed.flat);
  const auto root = static_cast<int32_t>(opts.rootRank);
  return RunCollective({OpType::BROADCAST, "rondo:broadcast", tensors, {packed.flat}, packed.back}, opts.timeout,
                       [&](const rondo_options* o, rondo_work** work, rondo_error** error) {
                         return rondo_broadcast_async(comm_.get(), data, data, BytesOf(tensor), RONDO_UINT8, root, o,
                                                      work, error);
                       });
}

WorkPtr RondoBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  TORCH_CHECK(tensors.size() == 1, "allreduce wants one tensor, not ", tensors.size());
  if (tensors.front().is_sparse()) return SumSparse(tensors.front(), opts);
  return allreduce_coalesced(tensors, [&] {
    c10d::AllreduceCoalescedOptions same;
    same.reduceOp = opts.reduceOp;
    same.timeout = opts.timeout;
    return same;
  }());
}

WorkPtr RondoBackend::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) {
  TORCH_CHECK(!tensors.empty(), "allreduce_coalesced wants tensors");
  for (const at::Tensor& tensor : tensors) {
    CheckDense(tensor, "allreduce");
    TORCH_CHECK(tensor.scalar_type() == tensors.front().scalar_type(), "allreduce: tensors must have one type");
  }
  const rondo_op op = OperationOf(opts.reduceOp);
  Packed packed;
  if (LiePacked(tensors)) {
    packed.flat = tensors.front();
  } else {
    packed.flat = Pack(tensors);
    packed.back = [flat = packed.flat, tensors] { Unpack(flat, tensors); };
  }
  uint64_t count = 0;
  for (const at::Tensor& tensor : tensors) count += CountOf(tensor) * (tensor.is_complex() ? 2 : 1);
  const rondo_dtype dtype = ElementOf(AsReal(packed.flat, op, "allreduce"));
  void* const data = DataOf(packed.flat);
  return RunCollective(
      {OpType::ALLREDUCE, "rondo:all_reduce", tensors, {packed.flat}, packed.back}, opts.timeout,
      [&](const rondo_options* o, rondo_work** work, rondo_error** error) {
        return rondo_all_reduce_async(comm_.get(), data, data, count, dtype, op, o, work, error);
      },
      ScaleOf(opts.reduceOp));
}

WorkPtr RondoBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& opts) {
  const at::Tensor& tensor = OnlyOf(tensors, "reduce");
  const rondo_op op = OperationOf(opts.reduceOp);
  const bool root = opts.rootRank == getRank();
  Packed packed = InPlace(tensor);
  const at::Tensor real = AsReal(packed.flat, op, "reduce");
  void* const data = DataOf(packed.flat);
  return RunCollective(
      {OpType::REDUCE, "rondo:reduce", tensors, {packed.flat}, root ? packed.back : nullptr}, opts.timeout,
      [&](const rondo_options* o, rondo_work** work, rondo_error** error) {
        return rondo_reduce_async(comm_.get(), data, root ? data : nullptr, CountOf(real), ElementOf(real), op,
                                  static_cast<int32_t>(opts.rootRank), o, work, error);
      },
      ScaleOf(opts.reduceOp));
}

// ---- a tensor for each rank ----

WorkPtr RondoBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) {
  const at::Tensor& input = OnlyOf(inputs, "allgather: input");
  TORCH_CHECK(outputs.size() == 1 && outputs.front().size() == static_cast<size_t>(getSize()),
              "allgather wants a list of ", getSize(), " outputs");
  Tensors& all = outputs.front();
  for (const at::Tensor& output : all) {
    CheckDense(output, "allgather: output");
    TORCH_CHECK(output.scalar_type() == input.scalar_type(), "allgather: tensors must have one type");
  }
  const std::vector<uint64_t> bytes = BytesOfEach(all);
  TORCH_CHECK(bytes[static_cast<size_t>(getRank())] == BytesOf(input), "allgather: tensors must have one size");
  const at::Tensor flat = input.contiguous();
  const Packed room = RoomOf(all);
  void* const to = DataOf(room.flat);
  const bool equal = AreEqual(bytes);
  return RunCollective(
      {OpType::ALLGATHER, "rondo:all_gather", all, {flat, room.flat}, room.back, false, inputs}, opts.timeout,
      [&](const rondo_options* o, rondo_work** work, rondo_error** error) {
        return equal
                   ? rondo_all_gather_async(comm_.get(), DataOf(flat), to, BytesOf(flat), RONDO_UINT8, o, work, error)
                   : rondo_all_gather_v_async(comm_.get(), DataOf(flat), to, bytes.data(), RONDO_UINT8, o, work, error);
      });
}

WorkPtr RondoBackend::_allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& opts) {
  CheckDense(output, "_allgather_base: output");
  CheckDense(input, "_allgather_base: input");
  TORCH_CHECK(output.scalar_type() == input.scalar_type(), "_allgather_base: tensors must have one type");
  TORCH_CHECK(output.numel() == input.numel() * getSize(), "_allgather_base: an output of ", output.numel(),
              " elements for ", getSize(), " inputs of ", input.numel());
  const at::Tensor flat = input.contiguous();
  const Packed room = InPlace(output);
  return RunCollective(
      {OpType::_ALLGATHER_BASE, "rondo:_all_gather_base", {output}, {flat, room.flat}, room.back, false, {input}},
      opts.timeout, [&](const rondo_options* o, rondo_work** work, rondo_error** error) {
        return rondo_all_gather_async(comm_.get(), DataOf(flat), DataOf(room.flat), BytesOf(flat), RONDO_UINT8, o, work,
                                      error);
      });
}

WorkPtr RondoBackend::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& opts) {
  TORCH_CHECK(!inputs.empty() && outputs.size() == static_cast<size_t>(getSize()), "allgather_coalesced wants ",
              getSize(), " lists of outputs");
  Tensors all;
  for (const Tensors& of_rank : outputs) {
    TORCH_CHECK(of_rank.size() == inputs.size(), "allgather_coalesced: as many outputs of each rank as inputs");
    for (size_t i = 0; i < inputs.size(); ++i) {
      CheckDense(of_rank[i], "allgather_coalesced: output");
      TORCH_CHECK(of_rank[i].sizes() == inputs[i].sizes() && of_rank[i].scalar_type() == inputs[0].scalar_type(),
                  "allgather_coalesced: outputs must be like the inputs");
      all.push_back(of_rank[i]);
    }
  }
  const at::Tensor flat = Pack(inputs);
  const Packed room = RoomOf(all);
  return RunCollective(
      {OpType::ALLGATHER_COALESCED, "rondo:all_gather", all, {flat, room.flat}, room.back, false, inputs}, opts.timeout,
      [&](const rondo_options* o, rondo_work** work, rondo_error** error) {
        return rondo_all_gather_async(comm_.get(), DataOf(flat), DataOf(room.flat), BytesOf(flat), RONDO_UINT8, o, work,
                                      error);
      });
}

WorkPtr RondoBackend::gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& opts) {
  const at::Tensor& input = OnlyOf(inputs, "gather: input");
  const bool root = opts.rootRank == getRank();
  TORCH_CHECK(root ? outputs.size() == 1 && outputs.front().size() == static_cast<size_t>(getSize()) : outputs.empty(),
              "gather wants ", getSize(), " outputs on the root, and none elsewhere");
  if (root) CheckSame(outputs.front(), input, "gather");
  const at::Tensor flat = input.contiguous();
  const Packed room = root ? RoomOf(outputs.front()) : Packed{};
  void* const to = root ? DataOf(room.flat) : nullptr;
  Tensors held{flat};
  if (root) held.push_back(room.flat);
  return RunCollective(
      {OpType::GATHER, "rondo:gather", root ? outputs.front() : Tensors{}, held, room.back, false, inputs},
      opts.timeout, [&](const rondo_options* o, rondo_work** work, rondo_error** error) {
        return rondo_gather_async(comm_.get(), DataOf(flat), to, BytesOf(flat), RONDO_UINT8,
                                  static_cast<int32_t>(opts.rootRank), o, work, error);
      });
}

WorkPtr RondoBackend::scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& opts) {
  const at::Tensor& output = OnlyOf(outputs, "scatter: output");
  const bool root = opts.rootRank == getRank();
  TORCH_CHECK(root ? inputs.size() == 1 && inputs.front().size() == static_cast<size_t>(getSize()) : inputs.empty(),
              "scatter wants ", getSize(), " inputs on the root, and none elsewhere");
  if (root) CheckSame(inputs.front(), output, "scatter");
  const Packed room = InPlace(output);
  Tensors held{room.flat};
  if (root) held.push_back(Pack(inputs.front()));
  const void* const from = root ? DataOf(held.back()) : nullptr;
  return RunCollective({OpType::SCATTER, "rondo:scatter", outputs, held, room.back}, opts.timeout,
                       [&](const rondo_options* o, rondo_work** work, rondo_error** error) {
                         return rondo_scatter_async(comm_.get(), from, DataOf(room.flat), BytesOf(output), RONDO_UINT8,
                                                    static_cast<int32_t>(opts.rootRank), o, work, error);
                       });
}

WorkPtr RondoBackend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                     const c10d::ReduceScatterOptions& opts) {
  const at::Tensor& output = OnlyOf(outputs, "reduce_scatter: output");
  TORCH_CHECK(inputs.size() == 1 && inputs.front().size() == static_cast<size_t>(getSize()),
              "reduce_scatter wants a list of ", getSize(), " inputs");
  const rondo_op op = OperationOf(opts.reduceOp);
  std::vector<uint64_t> counts;
  for (const at::Tensor& input : inputs.front()) {
    CheckDense(input, "reduce_scatter: input");
    TORCH_CHECK(input.scalar_type() == output.scalar_type(), "reduce_scatter: tensors must have one type");
    counts.push_back(CountOf(input) * (input.is_complex() ? 2 : 1));
  }
  const at::Tensor packed = Pack(inputs.front());
  const Packed room = InPlace(output);
  const at::Tensor real = AsReal(room.flat, op, "reduce_scatter");
  TORCH_CHECK(counts[static_cast<size_t>(getRank())] == CountOf(real),
              "reduce_scatter: the output must be like this rank's input");
  const bool equal = AreEqual(counts);
  return RunCollective(
      {OpType::REDUCE_SCATTER, "rondo:reduce_scatter", outputs, {packed, room.flat}, room.back, false, inputs.front()},
      opts.timeout,
      [&](const rondo_options* o, rondo_work** work, rondo_error** error) {
        return equal ? rondo_reduce_scatter_async(comm_.get(), DataOf(packed), DataOf(room.flat), CountOf(real),
                                                  ElementOf(real), op, o, work, error)
                     : rondo_reduce_scatter_v_async(comm_.get(), DataOf(packed), DataOf(room.flat), counts.data(),
                                                    ElementOf(real), op, o, work, error);
      },
      ScaleOf(opts.reduceOp));
}

WorkPtr RondoBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                           const c10d::ReduceScatterOptions& opts) {
  CheckDense(output, "_reduce_scatter_base: output");
  CheckDense(input, "_reduce_scatter_base: input");
  TORCH_CHECK(output.scalar_type() == input.scalar_type(), "_reduce_scatter_base: tensors must have one type");
  TORCH_CHECK(input.numel() == output.numel() * getSize(), "_reduce_scatter_base: an input of ", input.numel(),
              " elements for ", getSize(), " outputs of ", output.numel());
  const rondo_op op = OperationOf(opts.reduceOp);
  const at::Tensor flat = input.contiguous();
  const Packed room = InPlace(output);
  const at::Tensor real = AsReal(room.flat, op, "_reduce_scatter_base");
  return RunCollective(
      {OpType::_REDUCE_SCATTER_BASE,
       "rondo:_reduce_scatter_base",
       {output},
       {flat, room.flat},
       room.back,
       false,
       {input}},
      opts.timeout,
      [&](const rondo_options* o, rondo_work** work, rondo_error** error) {
        return rondo_reduce_scatter_async(comm_.get(), DataOf(flat), DataOf(room.flat), CountOf(real), ElementOf(real),
                                          op, o, work, error);
      },
      ScaleOf(opts.reduceOp));
}

WorkPtr RondoBackend::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                                    std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& opts) {
  CheckDense(output, "alltoall_base: output");
  CheckDense(input, "alltoall_base: input");
  TORCH_CHECK(output.scalar_type() == input.scalar_type(), "alltoall_base: tensors must have one type");
  const std::vector<uint64_t> from = Splits(input, input_splits, getSize(), "alltoall_base: input");
  const std::vector<uint64_t> to = Splits(output, output_splits, getSize(), "alltoall_base: output");
  const at::Tensor flat = input.contiguous();
  const Packed room = InPlace(output);
  return RunCollective(
      {OpType::ALLTOALL_BASE, "rondo:all_to_all", {output}, {flat, room.flat}, room.back, false, {input}}, opts.timeout,
      [&](const rondo_options* o, rondo_work** work, rondo_error** error) {
        return rondo_all_to_all_v_async(comm_.get(), DataOf(flat), from.data(), DataOf(room.flat), to.data(),
                                        RONDO_UINT8, o, work, error);
      });
}

WorkPtr RondoBackend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) {
  TORCH_CHECK(outputs.size() == static_cast<size_t>(getSize()) && inputs.size() == outputs.size(), "alltoall wants ",
              getSize(), " inputs and outputs");
  for (const Tensors* const tensors : {&outputs, &inputs})
    for (const at::Tensor& tensor : *tensors) {
      CheckDense(tensor, "alltoall");
      TORCH_CHECK(tensor.scalar_type() == inputs.front().scalar_type(), "alltoall: tensors must have one type");
    }
  const std::vector<uint64_t> from = BytesOfEach(inputs), to = BytesOfEach(outputs);
  const at::Tensor packed = Pack(inputs);
  const Packed room = RoomOf(outputs);
  return RunCollective({OpType::ALLTOALL, "rondo:all_to_all", outputs, {packed, room.flat}, room.back, false, inputs},
                       opts.timeout, [&](const rondo_options* o, rondo_work** work, rondo_error** error) {
                         return rondo_all_to_all_v_async(comm_.get(), DataOf(packed), from.data(), DataOf(room.flat),
                                                         to.data(), RONDO_UINT8, o, work, error);
                       });
}

WorkPtr RondoBackend::barrier(const c10d::BarrierOptions& opts) {
  return RunCollective({OpType::BARRIER, "rondo:barrier"}, opts.timeout,
                       [&](const rondo_options* o, rondo_work** work, rondo_error** error) {
                         return rondo_barrier_async(comm_.get(), o, work, error);
                       });
}

// ---- messages ----

WorkPtr RondoBackend::send(Tensors& tensors, int to, int tag) {
  const at::Tensor flat = OnlyOf(tensors, "send").contiguous();
  return Run({OpType::SEND, "rondo:send", tensors, {flat}}, timeout_,
             [&](const rondo_options* o, rondo_work** work, rondo_error** error) {
               return rondo_send_async(comm_.get(), DataOf(flat), BytesOf(flat), RONDO_UINT8, to, tag, o, work, error);
             });
}

WorkPtr RondoBackend::Receive(Tensors& tensors, int from, int tag, OpType type) {
  const Packed room = InPlace(OnlyOf(tensors, "recv"));
  RondoWork::Parts parts{type,      type == OpType::RECV ? "rondo:recv" : "rondo:recvAnySource",
                         tensors,   {room.flat},
                         room.back, /*receives=*/true};
  return Run(std::move(parts), timeout_, [&](const rondo_options* o, rondo_work** work, rondo_error** error) {
    return rondo_recv_async(comm_.get(), DataOf(room.flat), BytesOf(room.flat), RONDO_UINT8, from, tag, o, work, error);
  });
}

WorkPtr RondoBackend::recv(Tensors& tensors, int from, int tag) { return Receive(tensors, from, tag, OpType::RECV); }

WorkPtr RondoBackend::recvAnysource(Tensors& tensors, int tag) {
  return Receive(tensors, RONDO_ANY_RANK, tag, OpType::RECVANYSOURCE);
}

}  // namespace rondo_torch
