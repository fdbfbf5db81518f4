// The sum of sparse tensors. It blocks, because it needs several operations, each of which depends on the one before.
#include <pybind11/pybind11.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>

#include "backend.h"
#include "tensors.h"

namespace rondo_torch {
namespace {

using std::chrono::milliseconds;

rondo_options For(milliseconds timeout) {
  rondo_options options;
  rondo_options_init(&options);
  options.timeout_ms = static_cast<uint64_t>(timeout.count());
  return options;
}

}  // namespace

// Sends each rank's entries to all ranks. Every rank adds the entries in rank order.
WorkPtr RondoBackend::SumSparse(at::Tensor& tensor, const c10d::AllreduceOptions& opts) {
  TORCH_CHECK(opts.reduceOp == c10d::ReduceOp::SUM, "allreduce: expected SUM, the only reduction of sparse tensors");
  const HangsElsewhere elsewhere;  // a continuation may take `issuing_`, so this thread must not run continuations
  const std::lock_guard<std::mutex> lock(issuing_);
  ++sequence_;
  try {
    tensor.copy_(SumOfSparse(tensor.cpu().coalesce(), For(LimitOr(opts.timeout, timeout()))));
  } catch (const pybind11::error_already_set&) {
    Abort("a signal (Ctrl-C) ended the sum of sparse tensors on this rank between two of its steps");
    throw;
  }
  RondoWork::Parts parts{c10d::OpType::ALLREDUCE, "sparse_all_reduce", {tensor}};
  parts.side = SideOf(tensor.device());
  if (parts.side != nullptr) parts.side->FollowCurrent();
  return RondoWork::Follow(getRank(), settings_.profiled_as, std::move(parts), nullptr, *shared_);
}

at::Tensor RondoBackend::SumOfSparse(const at::Tensor& mine, const rondo_options& options) {
  // Gathers a tensor from every rank; bytes[r] is the size of rank r's tensor.
  const auto gather = [&](const at::Tensor& own, const std::vector<uint64_t>& bytes) {
    uint64_t all = 0;
    for (const uint64_t of_rank : bytes) all += of_rank;
    const at::Tensor flat = Flat(own);
    const at::Tensor gathered = at::empty({static_cast<int64_t>(all / flat.element_size())}, flat.options());
    RunAndAwait(
        [&](rondo_work** work, rondo_error** error) {
          return rondo_all_gather_v_async(comm_.get(), DataOf(flat), DataOf(gathered), bytes.data(), RONDO_UINT8,
                                          &options, work, error);
        },
        std::make_shared<const Tensors>(Tensors{flat, gathered}));
    return gathered;
  };

  // `shape` holds the values that must be equal on all ranks, and after them the number of entries, which may differ.
  std::vector<int64_t> shape{mine.sparse_dim(), mine.dense_dim(), static_cast<int64_t>(mine.scalar_type())};
  for (const int64_t size : mine.sizes()) shape.push_back(size);
  constexpr size_t kWords = 20;
  TORCH_CHECK(shape.size() < kWords, "allreduce: expected a sparse tensor of at most 16 dimensions");
  shape.resize(kWords);
  shape.back() = mine._nnz();
  const at::Tensor shapes = gather(at::tensor(shape, at::kLong),
                                   std::vector<uint64_t>(static_cast<size_t>(getSize()), kWords * sizeof(int64_t)));
  const at::Tensor values = mine.values();
  int64_t width = 1;
  for (int64_t i = 0; i < mine.dense_dim(); ++i) width *= mine.size(mine.sparse_dim() + i);
  std::vector<uint64_t> index_bytes, value_bytes;
  int64_t entries = 0;
  for (int rank = 0; rank < getSize(); ++rank) {
    const auto* const of_rank = shapes.data_ptr<int64_t>() + kWords * static_cast<size_t>(rank);
    TORCH_CHECK(std::equal(shape.begin(), shape.end() - 1, of_rank), "allreduce: the sparse tensor of ",
                settings_.Name(rank), " has another shape or type than the sparse tensor of this rank");
    const auto count = static_cast<uint64_t>(of_rank[kWords - 1]);
    entries += static_cast<int64_t>(count);
    index_bytes.push_back(count * static_cast<uint64_t>(mine.sparse_dim()) * sizeof(int64_t));
    value_bytes.push_back(count * static_cast<uint64_t>(width) * values.element_size());
  }
  const at::Tensor indices = gather(mine.indices().t(), index_bytes).view({entries, mine.sparse_dim()}).t();
  std::vector<int64_t> of_values{entries};
  for (int64_t i = 0; i < mine.dense_dim(); ++i) of_values.push_back(mine.size(mine.sparse_dim() + i));
  return at::sparse_coo_tensor(indices, gather(values, value_bytes).view(of_values), mine.sizes(), mine.options())
      .coalesce();
}

}  // namespace rondo_torch
