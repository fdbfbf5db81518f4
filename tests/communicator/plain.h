// Tests include this file to get the definitions of collectives. These are in simulation/ because `rondo chaos` needs
// them, too.
#pragma once

#include "simulation/plain.h"  // IWYU pragma: export
