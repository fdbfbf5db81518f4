// Memory that a transport has allocated or registered.
#pragma once

#include "base/bytes.h"

namespace rondo {

// Memory that the transport can move without a copy. The destructor frees the memory, and must not run while an
// operation uses it.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual MutableBytes bytes() const = 0;
};

// Keeps memory of the user registered until this object is destroyed. The destructor must run before the memory is
// freed, and not while an operation uses the memory.
class Registration {
 public:
  virtual ~Registration() = default;
};

}  // namespace rondo
