// Where tests look for it; the story of `rondo chaos` needs it too.
#pragma once

#include "simulation/plain.h"  // IWYU pragma: export
