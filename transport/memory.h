// Memory that a transport has allocated or registered.
#pragma once

#include "base/bytes.h"

namespace rondo {

// Memory that the transport can move without a copy. Freed by its destructor, which must not run while an operation
// uses it.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual MutableBytes bytes() const = 0;
};

// Keeps some memory of the user registered, until its destructor, which must not run while an operation uses that
// memory, nor after the memory is freed.
class Registration {
 public:
  virtual ~Registration() = default;
};

}  // namespace rondo
