#include "tools/common/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "tools/common/output.h"

namespace rondo {

ProgressLine::ProgressLine(const Clock& clock, std::size_t total)
    : clock_(clock), total_(total), visible_(::isatty(STDERR_FILENO) == 1 && total > 1), started_(clock.Now()) {}

void ProgressLine::Update(std::size_t done, std::string_view label) {
  const TimePoint now = clock_.Now();
  if (!visible_ || (on_screen_ && now - drawn_ < std::chrono::milliseconds(100))) return;
  constexpr std::size_t kWidth = 30;
  const std::size_t filled = kWidth * done / total_;
  const double elapsed_s = std::chrono::duration<double>(now - started_).count();
  const double left_s = done == 0 ? 0 : elapsed_s * static_cast<double>(total_ - done) / static_cast<double>(done);
  PrintError("\r\033[K[{}{}] {}/{} {}{}", std::string(filled, '#'), std::string(kWidth - filled, '.'), done, total_,
             label, done == 0 ? "" : fmt::format(", {:.0f} s left", left_s));
  std::fflush(stderr);
  drawn_ = now;
  on_screen_ = true;
}

void ProgressLine::Clear() {
  if (!on_screen_) return;
  PrintError("\r\033[K");
  std::fflush(stderr);
  on_screen_ = false;
}

}  // namespace rondo
