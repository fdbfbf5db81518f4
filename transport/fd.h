// Owns a file descriptor, here as in every layer (base/fd.h).
#pragma once

#include "base/fd.h"  // IWYU pragma: export
