// The functions of rondo.h that send and receive messages.
#include <utility>

#include "embed/handles.h"

namespace rondo::embed {
namespace {

template <typename Call>
Status Run(rondo_comm* comm, int dtype, const rondo_options* options, Call&& call) {
  RONDO_TRY(NotNull(comm, "comm"));
  RONDO_ASSIGN(const DataType type, DataTypeOf(dtype));
  RONDO_ASSIGN(const MessageOptions asked, MessageOptionsOf(options));
  return call(*comm->communicator, type, asked);
}

Status Give(const Result<Message>& came, rondo_message* message) {
  if (!came) return Fail(came.error());
  if (message != nullptr)
    *message = {
        .source = came->source, .tag = came->tag, .dtype = static_cast<rondo_dtype>(came->type), .count = came->count};
  return {};
}

}  // namespace
}  // namespace rondo::embed

using namespace rondo;         // NOLINT(google-build-using-namespace): the C functions below are in no namespace
using namespace rondo::embed;  // NOLINT(google-build-using-namespace)

rondo_code rondo_send(rondo_comm* comm, const void* buffer, uint64_t count, rondo_dtype dtype, int32_t to, int32_t tag,
                      const rondo_options* options, rondo_error** error) {
  return Answer(error, [&] {
    return Run(comm, dtype, options, [&](Communicator& c, DataType type, const MessageOptions& o) {
      return c.Send(buffer, count, type, to, tag, o);
    });
  });
}

rondo_code rondo_send_async(rondo_comm* comm, const void* buffer, uint64_t count, rondo_dtype dtype, int32_t to,
                            int32_t tag, const rondo_options* options, rondo_work** work, rondo_error** error) {
  if (work != nullptr) *work = nullptr;
  return Answer(error, [&]() -> Status {
    RONDO_TRY(NotNull(work, "work"));
    return Run(comm, dtype, options, [&](Communicator& c, DataType type, const MessageOptions& o) {
      return GiveWork(*comm, c.SendAsync(buffer, count, type, to, tag, o), work);
    });
  });
}

rondo_code rondo_recv(rondo_comm* comm, void* buffer, uint64_t count, rondo_dtype dtype, int32_t from_or_any,
                      int32_t tag_or_any, const rondo_options* options, rondo_message* message, rondo_error** error) {
  return Answer(error, [&] {
    return Run(comm, dtype, options, [&](Communicator& c, DataType type, const MessageOptions& o) {
      return Give(c.Recv(buffer, count, type, from_or_any, tag_or_any, o), message);
    });
  });
}

rondo_code rondo_recv_async(rondo_comm* comm, void* buffer, uint64_t count, rondo_dtype dtype, int32_t from_or_any,
                            int32_t tag_or_any, const rondo_options* options, rondo_work** work, rondo_error** error) {
  if (work != nullptr) *work = nullptr;
  return Answer(error, [&]() -> Status {
    RONDO_TRY(NotNull(work, "work"));
    return Run(comm, dtype, options, [&](Communicator& c, DataType type, const MessageOptions& o) {
      return GiveWork(*comm, c.RecvAsync(buffer, count, type, from_or_any, tag_or_any, o), work);
    });
  });
}

rondo_code rondo_send_recv(rondo_comm* comm, const void* output, uint64_t output_count, int32_t to, int32_t tag,
                           void* input, uint64_t input_count, int32_t from_or_any, int32_t tag_or_any,
                           rondo_dtype dtype, const rondo_options* options, rondo_message* message,
                           rondo_error** error) {
  return Answer(error, [&] {
    return Run(comm, dtype, options, [&](Communicator& c, DataType type, const MessageOptions& o) {
      return Give(
          c.SendRecv({.buffer = output, .count = output_count, .to = to, .tag = tag},
                     {.buffer = input, .count = input_count, .from_or_any = from_or_any, .tag_or_any = tag_or_any},
                     type, o),
          message);
    });
  });
}
