// Lanes and movers that make use of every freedom in their contracts.
#pragma once

#include <vector>

#include "transport/inproc/inproc.h"

namespace rondo {

struct Mode {
  const char* name;
  InprocOptions network;
  bool late_mover = false;
};

inline std::vector<Mode> AwkwardModes() {
  return {
      {"plain", {}},
      {"late mover", {}, true},
      {"late release", {.late_release = true}},
      {"one byte at a time", {.ring_bytes = 1024, .slice_bytes = 1}},
      {"pieces of up to 13 bytes, smallest ring", {.ring_bytes = 64, .slice_bytes = 13}},
      {"reluctant", {.reluctant = true}},
      {"reluctant in pieces, late mover", {.slice_bytes = 200, .reluctant = true}, true},
      {"push", {.push = true}},
      {"push in pieces, windows refused at random", {.slice_bytes = 300, .push = true, .refuse_windows = 0.5}},
      {"reluctant push", {.reluctant = true, .push = true}},
      {"reluctant, late mover", {.reluctant = true}, true},
      {"reluctant push, late release, slow to connect, late mover",
       {.late_release = true, .slice_bytes = 500, .reluctant = true, .push = true, .slow_connect_polls = 9},
       true},
  };
}

}  // namespace rondo
