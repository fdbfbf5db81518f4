// A progress bar on a terminal; nothing elsewhere.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/clock.h"

namespace rondo {

class ProgressLine {
 public:
  // On stderr if that is a terminal. REQUIRES: clock outlives it.
  ProgressLine(const Clock& clock, std::size_t total);
  ~ProgressLine() { Clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // `done` of the total are done and `label` is next. Draws at most a few times a second.
  void Update(std::size_t done, std::string_view label);
  // Takes the bar away, so that other text can be printed.
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
