// Knows what is spoken on a connection, so that a toxic can be put on "lane(0->1)" instead of on "connection 3", whose
// number depends on who was faster.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "transport/fault/toxic.h"

namespace rondo::fault {

// One per connection. Thread rule: one thread.
class Recogniser {
 public:
  struct Stream {
    std::string name;
    std::uint64_t begin = 0;  // where its byte 0 lies in the way that carries it
  };

  virtual ~Recogniser() = default;
  // The next bytes of a way (not kBoth), all of them, from the connection's beginning on. They are not changed yet by
  // toxics and have not been handed on.
  virtual void Look(Way way, Bytes bytes) = 0;
  // What that way carries, once it is known; it does not change any more then.
  virtual const std::optional<Stream>& stream(Way way) const = 0;
};

using MakeRecogniser = std::function<std::unique_ptr<Recogniser>()>;

}  // namespace rondo::fault
