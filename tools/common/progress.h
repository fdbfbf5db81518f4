// A progress bar, shown only if stderr is a terminal.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/clock.h"

namespace rondo {

class ProgressLine {
 public:
  // REQUIRES: clock outlives this object.
  ProgressLine(const Clock& clock, std::size_t total);
  ~ProgressLine() { Clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Shows that `done` items of the total are done, and that `label` is the next item. Redraws at most ten times a
  // second.
  void Update(std::size_t done, std::string_view label);
  // Removes the bar, so that other text can be printed.
  void Clear();

 private:
  const Clock& clock_;
  const std::size_t total_;
  const bool visible_;
  const TimePoint started_;
  TimePoint drawn_;
  bool on_screen_ = false;
};

}  // namespace rondo
