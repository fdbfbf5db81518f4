#include "collectives/communicator/widened_buffer.h"

#include <new>

#include "collectives/kernels/reduce.h"

namespace rondo {

Result<OperationBuffers> WidenedBuffer::Begin(const void* input, std::uint64_t elements, DataType type, bool in_place) {
  const DataType wide = WideTypeOf(type);
  const std::uint64_t bytes = elements * SizeOf(wide);
  if (bytes > bytes_) {
    if (bytes > max_bytes_)
      return Fail(ErrorCode::kResource,
                  "{} {} that are reduced in {} need {} bytes; the limit (max_scratch_bytes) is {}", elements,
                  Name(type), Name(wide), bytes, max_bytes_);
    bytes_ = 0;
    memory_.reset(new (std::nothrow) std::byte[bytes]);
    if (memory_ == nullptr)
      return Fail(ErrorCode::kOutOfMemory, "no memory for the {} bytes that {} {} need in a wider type", bytes,
                  elements, Name(type));
    bytes_ = bytes;
  }
  Widen(memory_.get(), static_cast<const std::byte*>(input), elements, type);
  OperationBuffers buffers;
  if (in_place) {
    buffers.output = memory_.get();
  } else {
    buffers.input = memory_.get();
  }
  return buffers;
}

void WidenedBuffer::End(void* output, std::uint64_t first, std::uint64_t elements, DataType type) const {
  const std::byte* const from = memory_.get() + first * SizeOf(WideTypeOf(type));
  Narrow(static_cast<std::byte*>(output), from, elements, type);
}

}  // namespace rondo
