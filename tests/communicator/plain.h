// Includes the definitions of collectives at the path that tests use. They are in simulation/ because `rondo chaos`
// needs them, too.
#pragma once

#include "simulation/plain.h"  // IWYU pragma: export
