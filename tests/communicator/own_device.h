// A device for each rank, and functions that run a collective on its memory, shared by tests of operations on devices.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "tests/communicator/extreme_averages.h"
#include "tests/communicator/plain.h"
#include "tests/support/plain_device.h"

namespace rondo {

// The device of one rank, and a stream of that device.
struct OwnDevice {
  explicit OwnDevice(Rank rank) : device(std::make_shared<PlainDevice>(40 + static_cast<std::uint64_t>(rank))) {}
  std::shared_ptr<PlainDevice> device;
  PlainStream stream;

  PlainDeviceMemory& Holding(const void* values, std::size_t bytes, std::size_t misalignment = 0) {
    PlainDeviceMemory& memory = device->Allocate(bytes, misalignment);
    if (bytes > 0) std::memcpy(memory.bytes().data(), values, bytes);
    return memory;
  }
  PlainDeviceMemory& Holding(const plain::Values& values, std::size_t misalignment = 0) {
    return Holding(values.data(), values.size() * sizeof(std::int64_t), misalignment);
  }
  OperationOptions options() { return {.memory = MemoryKind::kDevice, .stream = &stream}; }
};

inline plain::Values ValuesOf(PlainDeviceMemory& memory) {
  plain::Values values(memory.size() / sizeof(std::int64_t));
  if (!values.empty()) std::memcpy(values.data(), memory.bytes().data(), memory.size());
  return values;
}

// Runs the case on device memory. Returns what is wrong with its result, or "".
inline std::string RunCase(Communicator& communicator, OwnDevice& own, const plain::Case& c) {
  const Rank rank = communicator.rank();
  plain::Buffers host(c, rank, communicator.world_size());
  const std::size_t odd = static_cast<std::size_t>(rank) * 8;
  PlainDeviceMemory& output = own.Holding(host.output, odd);
  PlainDeviceMemory& input = own.Holding(host.input);
  const auto at = [](PlainDeviceMemory& memory, std::uint64_t element) {
    return memory.address() + element * sizeof(std::int64_t);
  };
  const void* const in = host.one ? at(output, host.input_at) : at(input, 0);
  const Status status =
      plain::Issue(communicator, c, in, at(output, host.output_at), DataType::kInt64, ReduceOp::kSum, own.options())
          .Wait();
  if (!status) return status.error().ToString();
  own.stream.Run();
  host.output = ValuesOf(output);
  if (!host.one) host.input = ValuesOf(input);
  return host.Wrong(c, rank, communicator.world_size());
}

// Computes an average on device memory. Returns what is wrong with the result, or "".
inline std::string RunAverage(Communicator& communicator, OwnDevice& own, extreme::Case c, DataType type) {
  c.options = own.options();
  std::vector<PlainDeviceMemory*> buffers;
  const auto memory = [&](const std::vector<std::byte>& bytes) {
    return buffers.emplace_back(&own.Holding(bytes.data(), bytes.size()))->address();
  };
  const auto read = [&](const std::byte* from, std::size_t bytes) {
    own.stream.Run();
    for (PlainDeviceMemory* const buffer : buffers) {
      const auto at = static_cast<std::size_t>(from - buffer->address());
      if (from < buffer->address() || at + bytes > buffer->size()) continue;
      const auto first = buffer->bytes().begin() + static_cast<std::ptrdiff_t>(at);
      return std::vector<std::byte>(first, first + static_cast<std::ptrdiff_t>(bytes));
    }
    return std::vector<std::byte>(bytes);
  };
  return extreme::Run(communicator, c, type, memory, read);
}

inline constexpr std::array kCollectives{Collective::kAllReduce,     Collective::kBroadcast, Collective::kReduce,
                                         Collective::kAllGather,     Collective::kGather,    Collective::kScatter,
                                         Collective::kReduceScatter, Collective::kAllToAll,  Collective::kBarrier};

}  // namespace rondo
