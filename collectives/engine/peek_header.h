// Looks at a frame's header where it arrived. A part of the engine, not of its contract.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "collectives/engine/frame.h"
#include "transport/lane.h"

namespace rondo {

// The header at the front of the lane, left there; false until all of it has arrived.
inline bool PeekHeader(Lane& lane, HeaderArray& bytes) {
  const Arrived arrived = lane.Peek(kFrameHeaderBytes);
  if (arrived.first.size() >= kFrameHeaderBytes) {
    std::memcpy(bytes.data(), arrived.first.data(), kFrameHeaderBytes);
    return true;
  }
  if (arrived.size() < kFrameHeaderBytes) return false;
  std::copy_n(arrived.first.data(), arrived.first.size(), bytes.data());
  std::copy_n(arrived.second.data(), kFrameHeaderBytes - arrived.first.size(), bytes.data() + arrived.first.size());
  return true;
}

}  // namespace rondo
