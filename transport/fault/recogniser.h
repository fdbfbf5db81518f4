// Recognises the protocol of a connection, so that a toxic can name "lane(0->1)" instead of "connection 3". Such a name
// is better because the number of a connection depends on which rank was faster.
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
    std::uint64_t begin = 0;  // the number of bytes that precede the stream in its direction of the connection
  };

  virtual ~Recogniser() = default;
  // Gets all bytes of one direction, in order, from the first byte of the connection. Called before toxics are applied
  // and the bytes are forwarded. REQUIRES: `way` is not kBoth.
  virtual void Look(Way way, Bytes bytes) = 0;
  // The stream that the direction carries; empty until it is known. Once known, it does not change.
  virtual const std::optional<Stream>& stream(Way way) const = 0;
};

using MakeRecogniser = std::function<std::unique_ptr<Recogniser>()>;

}  // namespace rondo::fault
