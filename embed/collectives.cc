// The collectives of rondo.h: each checks its arguments and calls Communicator.
#include <span>
#include <utility>

#include "embed/handles.h"

namespace rondo::embed {
namespace {

// Runs a collective: calls `call` with (communicator, type, options).
template <typename Call>
rondo_code Run(rondo_comm* comm, int dtype, const rondo_options* options, rondo_error** error, Call&& call) noexcept {
  return Answer(error, [&]() -> Status {
    RONDO_TRY(NotNull(comm, "comm"));
    RONDO_ASSIGN(const DataType type, DataTypeOf(dtype));
    RONDO_ASSIGN(const OperationOptions asked, OptionsOf(options));
    return call(*comm->communicator, type, asked);
  });
}

template <typename Call>
rondo_code Start(rondo_comm* comm, int dtype, const rondo_options* options, rondo_work** work, rondo_error** error,
                 Call&& call) noexcept {
  if (work != nullptr) *work = nullptr;
  return Answer(error, [&]() -> Status {
    RONDO_TRY(NotNull(comm, "comm"));
    RONDO_TRY(NotNull(work, "work"));
    RONDO_ASSIGN(const DataType type, DataTypeOf(dtype));
    RONDO_ASSIGN(const OperationOptions asked, OptionsOf(options));
    RONDO_ASSIGN(Work started, call(*comm->communicator, type, asked));
    return GiveWork(*comm, std::move(started), work);
  });
}

// The array as a span of one count for each rank; empty if it is NULL.
std::span<const std::uint64_t> CountsOf(const Communicator& communicator, const std::uint64_t* counts) {
  if (counts == nullptr) return {};
  return {counts, static_cast<std::size_t>(communicator.world_size())};
}

constexpr int kNoType = static_cast<int>(DataType::kUint8);  // the type for a barrier, which has no elements

}  // namespace
}  // namespace rondo::embed

using namespace rondo;         // NOLINT(google-build-using-namespace): the C functions below are in no namespace
using namespace rondo::embed;  // NOLINT(google-build-using-namespace)

rondo_code rondo_all_reduce(rondo_comm* comm, const void* input, void* output, uint64_t count, rondo_dtype dtype,
                            rondo_op op, const rondo_options* options, rondo_error** error) {
  return Run(comm, dtype, options, error, [&](Communicator& c, DataType type, const OperationOptions& o) -> Status {
    RONDO_ASSIGN(const ReduceOp reduction, ReduceOpOf(op));
    return c.AllReduce(input, output, count, type, reduction, o);
  });
}

rondo_code rondo_all_reduce_async(rondo_comm* comm, const void* input, void* output, uint64_t count, rondo_dtype dtype,
                                  rondo_op op, const rondo_options* options, rondo_work** work, rondo_error** error) {
  return Start(comm, dtype, options, work, error,
               [&](Communicator& c, DataType type, const OperationOptions& o) -> Result<Work> {
                 RONDO_ASSIGN(const ReduceOp reduction, ReduceOpOf(op));
                 return c.AllReduceAsync(input, output, count, type, reduction, o);
               });
}

rondo_code rondo_reduce(rondo_comm* comm, const void* input, void* output, uint64_t count, rondo_dtype dtype,
                        rondo_op op, int32_t root, const rondo_options* options, rondo_error** error) {
  return Run(comm, dtype, options, error, [&](Communicator& c, DataType type, const OperationOptions& o) -> Status {
    RONDO_ASSIGN(const ReduceOp reduction, ReduceOpOf(op));
    return c.Reduce(input, output, count, type, reduction, root, o);
  });
}

rondo_code rondo_reduce_async(rondo_comm* comm, const void* input, void* output, uint64_t count, rondo_dtype dtype,
                              rondo_op op, int32_t root, const rondo_options* options, rondo_work** work,
                              rondo_error** error) {
  return Start(comm, dtype, options, work, error,
               [&](Communicator& c, DataType type, const OperationOptions& o) -> Result<Work> {
                 RONDO_ASSIGN(const ReduceOp reduction, ReduceOpOf(op));
                 return c.ReduceAsync(input, output, count, type, reduction, root, o);
               });
}

rondo_code rondo_broadcast(rondo_comm* comm, const void* input, void* output, uint64_t count, rondo_dtype dtype,
                           int32_t root, const rondo_options* options, rondo_error** error) {
  return Run(comm, dtype, options, error, [&](Communicator& c, DataType type, const OperationOptions& o) {
    return c.Broadcast(input, output, count, type, root, o);
  });
}

rondo_code rondo_broadcast_async(rondo_comm* comm, const void* input, void* output, uint64_t count, rondo_dtype dtype,
                                 int32_t root, const rondo_options* options, rondo_work** work, rondo_error** error) {
  return Start(comm, dtype, options, work, error,
               [&](Communicator& c, DataType type, const OperationOptions& o) -> Result<Work> {
                 return c.BroadcastAsync(input, output, count, type, root, o);
               });
}

rondo_code rondo_all_gather(rondo_comm* comm, const void* input, void* output, uint64_t count, rondo_dtype dtype,
                            const rondo_options* options, rondo_error** error) {
  return Run(comm, dtype, options, error, [&](Communicator& c, DataType type, const OperationOptions& o) {
    return c.AllGather(input, output, count, type, o);
  });
}

rondo_code rondo_all_gather_async(rondo_comm* comm, const void* input, void* output, uint64_t count, rondo_dtype dtype,
                                  const rondo_options* options, rondo_work** work, rondo_error** error) {
  return Start(comm, dtype, options, work, error,
               [&](Communicator& c, DataType type, const OperationOptions& o) -> Result<Work> {
                 return c.AllGatherAsync(input, output, count, type, o);
               });
}

rondo_code rondo_all_gather_v(rondo_comm* comm, const void* input, void* output, const uint64_t* counts,
                              rondo_dtype dtype, const rondo_options* options, rondo_error** error) {
  return Run(comm, dtype, options, error, [&](Communicator& c, DataType type, const OperationOptions& o) {
    return c.AllGatherV(input, output, CountsOf(c, counts), type, o);
  });
}

rondo_code rondo_all_gather_v_async(rondo_comm* comm, const void* input, void* output, const uint64_t* counts,
                                    rondo_dtype dtype, const rondo_options* options, rondo_work** work,
                                    rondo_error** error) {
  return Start(comm, dtype, options, work, error,
               [&](Communicator& c, DataType type, const OperationOptions& o) -> Result<Work> {
                 return c.AllGatherVAsync(input, output, CountsOf(c, counts), type, o);
               });
}

rondo_code rondo_reduce_scatter(rondo_comm* comm, const void* input, void* output, uint64_t count, rondo_dtype dtype,
                                rondo_op op, const rondo_options* options, rondo_error** error) {
  return Run(comm, dtype, options, error, [&](Communicator& c, DataType type, const OperationOptions& o) -> Status {
    RONDO_ASSIGN(const ReduceOp reduction, ReduceOpOf(op));
    return c.ReduceScatter(input, output, count, type, reduction, o);
  });
}

rondo_code rondo_reduce_scatter_async(rondo_comm* comm, const void* input, void* output, uint64_t count,
                                      rondo_dtype dtype, rondo_op op, const rondo_options* options, rondo_work** work,
                                      rondo_error** error) {
  return Start(comm, dtype, options, work, error,
               [&](Communicator& c, DataType type, const OperationOptions& o) -> Result<Work> {
                 RONDO_ASSIGN(const ReduceOp reduction, ReduceOpOf(op));
                 return c.ReduceScatterAsync(input, output, count, type, reduction, o);
               });
}

rondo_code rondo_reduce_scatter_v(rondo_comm* comm, const void* input, void* output, const uint64_t* counts,
                                  rondo_dtype dtype, rondo_op op, const rondo_options* options, rondo_error** error) {
  return Run(comm, dtype, options, error, [&](Communicator& c, DataType type, const OperationOptions& o) -> Status {
    RONDO_ASSIGN(const ReduceOp reduction, ReduceOpOf(op));
    return c.ReduceScatterV(input, output, CountsOf(c, counts), type, reduction, o);
  });
}

rondo_code rondo_reduce_scatter_v_async(rondo_comm* comm, const void* input, void* output, const uint64_t* counts,
                                        rondo_dtype dtype, rondo_op op, const rondo_options* options, rondo_work** work,
                                        rondo_error** error) {
  return Start(comm, dtype, options, work, error,
               [&](Communicator& c, DataType type, const OperationOptions& o) -> Result<Work> {
                 RONDO_ASSIGN(const ReduceOp reduction, ReduceOpOf(op));
                 return c.ReduceScatterVAsync(input, output, CountsOf(c, counts), type, reduction, o);
               });
}

rondo_code rondo_gather(rondo_comm* comm, const void* input, void* output, uint64_t count, rondo_dtype dtype,
                        int32_t root, const rondo_options* options, rondo_error** error) {
  return Run(comm, dtype, options, error, [&](Communicator& c, DataType type, const OperationOptions& o) {
    return c.Gather(input, output, count, type, root, o);
  });
}

rondo_code rondo_gather_async(rondo_comm* comm, const void* input, void* output, uint64_t count, rondo_dtype dtype,
                              int32_t root, const rondo_options* options, rondo_work** work, rondo_error** error) {
  return Start(comm, dtype, options, work, error,
               [&](Communicator& c, DataType type, const OperationOptions& o) -> Result<Work> {
                 return c.GatherAsync(input, output, count, type, root, o);
               });
}

rondo_code rondo_gather_v(rondo_comm* comm, const void* input, uint64_t count, void* output, const uint64_t* counts,
                          rondo_dtype dtype, int32_t root, const rondo_options* options, rondo_error** error) {
  return Run(comm, dtype, options, error, [&](Communicator& c, DataType type, const OperationOptions& o) {
    return c.GatherV(input, count, output, CountsOf(c, counts), type, root, o);
  });
}

rondo_code rondo_gather_v_async(rondo_comm* comm, const void* input, uint64_t count, void* output,
                                const uint64_t* counts, rondo_dtype dtype, int32_t root, const rondo_options* options,
                                rondo_work** work, rondo_error** error) {
  return Start(comm, dtype, options, work, error,
               [&](Communicator& c, DataType type, const OperationOptions& o) -> Result<Work> {
                 return c.GatherVAsync(input, count, output, CountsOf(c, counts), type, root, o);
               });
}

rondo_code rondo_scatter(rondo_comm* comm, const void* input, void* output, uint64_t count, rondo_dtype dtype,
                         int32_t root, const rondo_options* options, rondo_error** error) {
  return Run(comm, dtype, options, error, [&](Communicator& c, DataType type, const OperationOptions& o) {
    return c.Scatter(input, output, count, type, root, o);
  });
}

rondo_code rondo_scatter_async(rondo_comm* comm, const void* input, void* output, uint64_t count, rondo_dtype dtype,
                               int32_t root, const rondo_options* options, rondo_work** work, rondo_error** error) {
  return Start(comm, dtype, options, work, error,
               [&](Communicator& c, DataType type, const OperationOptions& o) -> Result<Work> {
                 return c.ScatterAsync(input, output, count, type, root, o);
               });
}

rondo_code rondo_scatter_v(rondo_comm* comm, const void* input, const uint64_t* counts, void* output, uint64_t count,
                           rondo_dtype dtype, int32_t root, const rondo_options* options, rondo_error** error) {
  return Run(comm, dtype, options, error, [&](Communicator& c, DataType type, const OperationOptions& o) {
    return c.ScatterV(input, CountsOf(c, counts), output, count, type, root, o);
  });
}

rondo_code rondo_scatter_v_async(rondo_comm* comm, const void* input, const uint64_t* counts, void* output,
                                 uint64_t count, rondo_dtype dtype, int32_t root, const rondo_options* options,
                                 rondo_work** work, rondo_error** error) {
  return Start(comm, dtype, options, work, error,
               [&](Communicator& c, DataType type, const OperationOptions& o) -> Result<Work> {
                 return c.ScatterVAsync(input, CountsOf(c, counts), output, count, type, root, o);
               });
}

rondo_code rondo_all_to_all(rondo_comm* comm, const void* input, void* output, uint64_t count, rondo_dtype dtype,
                            const rondo_options* options, rondo_error** error) {
  return Run(comm, dtype, options, error, [&](Communicator& c, DataType type, const OperationOptions& o) {
    return c.AllToAll(input, output, count, type, o);
  });
}

rondo_code rondo_all_to_all_async(rondo_comm* comm, const void* input, void* output, uint64_t count, rondo_dtype dtype,
                                  const rondo_options* options, rondo_work** work, rondo_error** error) {
  return Start(comm, dtype, options, work, error,
               [&](Communicator& c, DataType type, const OperationOptions& o) -> Result<Work> {
                 return c.AllToAllAsync(input, output, count, type, o);
               });
}

rondo_code rondo_all_to_all_v(rondo_comm* comm, const void* input, const uint64_t* input_counts, void* output,
                              const uint64_t* output_counts, rondo_dtype dtype, const rondo_options* options,
                              rondo_error** error) {
  return Run(comm, dtype, options, error, [&](Communicator& c, DataType type, const OperationOptions& o) {
    return c.AllToAllV(input, CountsOf(c, input_counts), output, CountsOf(c, output_counts), type, o);
  });
}

rondo_code rondo_all_to_all_v_async(rondo_comm* comm, const void* input, const uint64_t* input_counts, void* output,
                                    const uint64_t* output_counts, rondo_dtype dtype, const rondo_options* options,
                                    rondo_work** work, rondo_error** error) {
  return Start(comm, dtype, options, work, error,
               [&](Communicator& c, DataType type, const OperationOptions& o) -> Result<Work> {
                 return c.AllToAllVAsync(input, CountsOf(c, input_counts), output, CountsOf(c, output_counts), type, o);
               });
}

rondo_code rondo_barrier(rondo_comm* comm, const rondo_options* options, rondo_error** error) {
  return Run(comm, kNoType, options, error,
             [&](Communicator& c, DataType, const OperationOptions& o) { return c.Barrier(o); });
}

rondo_code rondo_barrier_async(rondo_comm* comm, const rondo_options* options, rondo_work** work, rondo_error** error) {
  return Start(comm, kNoType, options, work, error,
               [&](Communicator& c, DataType, const OperationOptions& o) -> Result<Work> { return c.BarrierAsync(o); });
}
