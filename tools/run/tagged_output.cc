#include "tools/run/tagged_output.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace rondo {
namespace {

constexpr std::size_t kMaxHeldBytes = 64 << 10;  // a longer unfinished line is written at once

// Whether both descriptors refer to the same file. Lines written to one would then mix with those of the other.
bool AreTheSame(int one, int other) {
  struct stat a {
  }, b{};
  return ::fstat(one, &a) == 0 && ::fstat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

}  // namespace

OutputPlaces OutputPlaces::OfThisProcess() {
  return {.are_one = AreTheSame(STDOUT_FILENO, STDERR_FILENO),
          .are_terminals = {::isatty(STDOUT_FILENO) == 1, ::isatty(STDERR_FILENO) == 1}};
}

TaggedOutput::TaggedOutput(std::function<void(int, std::string_view)> write, OutputPlaces places, bool tags,
                           const Clock& clock)
    : write_(std::move(write)),
      tags_(tags),
      one_sink_(places.are_one),
      clock_(clock),
      sinks_{Sink{.stream = STDOUT_FILENO, .is_terminal = places.are_terminals[0]},
             Sink{.stream = STDERR_FILENO, .is_terminal = places.are_terminals[1]}} {}

void TaggedOutput::Write(Rank rank, int stream, std::string_view bytes) {
  if (!tags_) return write_(stream, bytes);
  const Source source{rank, stream};
  Sink& sink = SinkOf(stream);
  const auto held = held_.find(source);
  if (bytes.empty()) {
    if (held != held_.end()) Emit(source, std::exchange(held->second.bytes, {}));
    if (held != held_.end()) held_.erase(held);
    if (!Owns(sink, source)) return;
    write_(sink.stream, "\n");
    return BeginLine(sink);
  }
  if (held == held_.end() && (Owns(sink, source) || bytes.back() == '\n')) return Emit(source, bytes);
  Held& line = held_.try_emplace(source, Held{"", clock_.Now()}).first->second;
  line.bytes += bytes;
  const std::size_t whole = line.bytes.rfind('\n') + 1;  // 0: no line has ended
  if (whole > 0) {
    Emit(source, std::string_view(line.bytes).substr(0, whole));
    line.bytes.erase(0, whole);
    line.since = clock_.Now();
  }
  if (line.bytes.size() >= kMaxHeldBytes) Emit(source, std::exchange(line.bytes, {}));
  if (line.bytes.empty()) held_.erase(source);
}

void TaggedOutput::WriteOwn(std::string_view line) {
  Sink& sink = SinkOf(STDERR_FILENO);
  if (sink.is_open) write_(sink.stream, "\n");
  BeginLine(sink);
  write_(sink.stream, line);
}

void TaggedOutput::OnTerminalInput() {
  for (Sink& sink : sinks_)
    if (sink.is_terminal) BeginLine(sink);
}

void TaggedOutput::Finish() {
  for (const auto& [source, line] : held_) Emit(source, line.bytes);
  held_.clear();
  for (Sink& sink : sinks_) {
    if (sink.is_open) write_(sink.stream, "\n");
    BeginLine(sink);
  }
}

TimePoint TaggedOutput::next() const {
  TimePoint next = TimePoint::max();
  for (const auto& [source, line] : held_) next = std::min(next, line.since + kHoldLine);
  return next;
}

void TaggedOutput::ShowHeldLines() {
  if (held_.empty()) return;
  const TimePoint now = clock_.Now();
  std::erase_if(held_, [&](const auto& held) {
    const bool is_due = now >= held.second.since + kHoldLine;
    if (is_due) Emit(held.first, held.second.bytes);
    return is_due;
  });
}

void TaggedOutput::Emit(const Source& source, std::string_view bytes) {
  if (bytes.empty()) return;
  Sink& sink = SinkOf(source.second);
  const std::string tag = fmt::format("[{}] ", source.first);
  std::string text;
  if (sink.is_open && sink.owner != source) {
    // On a terminal a progress bar may replace the progress bar of another rank. Other text is kept.
    text = sink.is_terminal && sink.has_returned && bytes.front() == '\r' ? "\r\033[K" : "\n";
    BeginLine(sink);
  }
  sink.owner = source;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t end = std::min(bytes.find_first_of("\r\n", at), bytes.size());
    const bool line_ends = end < bytes.size() && bytes[end] == '\n';
    if (end > at || (line_ends && !sink.is_tagged)) {
      if (sink.tag_is_due) text += tag;
      sink.tag_is_due = false;
      sink.is_tagged = sink.is_open = true;
      text += bytes.substr(at, end - at);
    }
    if (end == bytes.size()) break;
    text += bytes[end];
    if (line_ends) {
      BeginLine(sink);
    } else {
      sink.is_open = sink.has_returned = sink.tag_is_due = true;
    }
    at = end + 1;
  }
  write_(sink.stream, text);
}

}  // namespace rondo
