#include <utility>

#include "embed/handles.h"

namespace rondo::embed {
namespace {

template <typename Call>
rondo_code Use(rondo_fusion* fusion, rondo_error** error, Call&& call) noexcept {
  return Answer(error, [&]() -> Status {
    RONDO_TRY(NotNull(fusion, "fusion"));
    return call(*fusion->buffer);
  });
}

Result<TimePoint> After(std::uint64_t timeout_ms) {
  RONDO_ASSIGN(const Duration timeout, MillisecondsOf("timeout_ms", timeout_ms));
  return Later(SteadyClock().Now(), timeout);
}

}  // namespace
}  // namespace rondo::embed

using namespace rondo;         // NOLINT(google-build-using-namespace): the C functions below are in no namespace
using namespace rondo::embed;  // NOLINT(google-build-using-namespace)

rondo_code rondo_fusion_create(rondo_comm* comm, const rondo_fusion_options* options, rondo_fusion** fusion,
                               rondo_error** error) {
  if (fusion != nullptr) *fusion = nullptr;
  return Answer(error, [&]() -> Status {
    RONDO_TRY(NotNull(comm, "comm"));
    RONDO_TRY(NotNull(fusion, "fusion"));
    RONDO_ASSIGN(const rondo_fusion_options known,
                 Known(options, rondo_fusion_options_init_sized, "fusion_options", "rondo_fusion_options_init"));
    FusionOptions asked{.bucket_bytes = known.bucket_bytes, .buckets = known.buckets};
    RONDO_ASSIGN(asked.operation, OptionsOf(known.operation));
    RONDO_ASSIGN(auto made, FusionBuffer::Create(*comm->communicator, asked));
    *fusion = new rondo_fusion{comm->kept, std::move(made)};
    return {};
  });
}

rondo_code rondo_fusion_add(rondo_fusion* fusion, const void* input, void* output, uint64_t count, rondo_dtype dtype,
                            rondo_op op, double scale, rondo_error** error) {
  return Use(fusion, error, [&](FusionBuffer& buffer) -> Status {
    RONDO_ASSIGN(const DataType type, DataTypeOf(dtype));
    RONDO_ASSIGN(const ReduceOp reduction, ReduceOpOf(op));
    return buffer.Add(input, output, count, type, reduction, scale);
  });
}

rondo_code rondo_fusion_flush(rondo_fusion* fusion, rondo_error** error) {
  return Use(fusion, error, [](FusionBuffer& buffer) { return buffer.Flush(); });
}

rondo_code rondo_fusion_wait(rondo_fusion* fusion, rondo_error** error) {
  return Use(fusion, error, [](FusionBuffer& buffer) { return buffer.Wait(); });
}

rondo_code rondo_fusion_wait_for(rondo_fusion* fusion, uint64_t timeout_ms, rondo_error** error) {
  return Use(fusion, error, [&](FusionBuffer& buffer) -> Status {
    RONDO_ASSIGN(const TimePoint deadline, After(timeout_ms));
    return buffer.Wait(deadline);
  });
}

rondo_code rondo_fusion_await_room(rondo_fusion* fusion, uint64_t timeout_ms, rondo_error** error) {
  return Use(fusion, error, [&](FusionBuffer& buffer) -> Status {
    RONDO_ASSIGN(const TimePoint deadline, After(timeout_ms));
    return buffer.AwaitRoom(deadline);
  });
}

void rondo_fusion_free(rondo_fusion* fusion) { delete fusion; }
