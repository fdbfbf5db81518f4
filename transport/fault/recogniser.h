// Recognises the protocol of a connection, so that a toxic can name "lane(0->1)" instead of "connection 3". The number
// of a connection depends on which rank was faster.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "transport/fault/toxic.h"

namespace rondo::fault {

// A connection has one recogniser. Thread rule: one thread.
class Recogniser {
 public:
  struct Stream {
    std::string name;
    std::uint64_t begin = 0;  // the offset of the stream's byte 0 in its direction
  };

  virtual ~Recogniser() = default;
  // Gets all bytes of a direction (not kBoth), in order from the beginning of the connection on. The call precedes
  // toxics and forwarding.
  virtual void Look(Way way, Bytes bytes) = 0;
  // The stream that the direction carries; empty until it is known, and constant afterwards.
  virtual const std::optional<Stream>& stream(Way way) const = 0;
};

using MakeRecogniser = std::function<std::unique_ptr<Recogniser>()>;

}  // namespace rondo::fault
