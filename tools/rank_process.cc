#include "tools/rank_process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace rondo {
namespace {

constexpr std::size_t kMaxLineBytes = 64 << 10;  // a longer line is passed on in pieces
// At one call: a rank that never stops writing must not keep us from everything else. More than a pipe holds.
constexpr int kMaxReads = 32;

// Our environment with some variables left out, and some replaced; of two changes to one the later holds.
Variables MergedEnvironment(const RankProcessOptions& options) {
  Variables merged;
  for (auto& [name, value] : ProcessVariables())
    if (!options.leave_out || !options.leave_out(name)) merged.emplace_back(name, value);
  for (const auto& [name, value] : options.environment) {
    const auto there =
        std::find_if(merged.begin(), merged.end(), [&n = name](auto& entry) { return entry.first == n; });
    if (there == merged.end()) {
      merged.emplace_back(name, value);
    } else {
      there->second = value;
    }
  }
  return merged;
}

}  // namespace

Result<std::unique_ptr<RankProcess>> RankProcess::Start(const RankProcessOptions& options) {
  std::unique_ptr<RankProcess> process(new RankProcess);
  process->rank_ = options.rank;
  process->tag_output_ = options.tag_output;
  process->output_ = options.output;
  ChildOptions child{.command = options.command, .environment = MergedEnvironment(options), .guard = options.guard};
  Pipe out, err;
  if (options.output) {
    RONDO_ASSIGN(out, MakePipe());
    RONDO_ASSIGN(err, MakePipe());
    child.out = out.write.get();
    child.err = err.write.get();
    for (const int fd : {out.read.get(), err.read.get()}) ::fcntl(fd, F_SETFL, O_NONBLOCK);
    process->streams_.push_back({1, std::move(out.read), {}});
    process->streams_.push_back({2, std::move(err.read), {}});
  }
  RONDO_ASSIGN(process->child_, ChildProcess::Start(child));
  return process;
}

std::vector<int> RankProcess::output_fds() const {
  std::vector<int> fds;
  for (const Stream& stream : streams_)
    if (stream.from) fds.push_back(stream.from.get());
  return fds;
}

void RankProcess::PumpOutput() {
  for (Stream& stream : streams_) Pump(stream);
}

void RankProcess::FinishOutput() {
  PumpOutput();
  for (Stream& stream : streams_) WriteLines(stream, /*all=*/true);
}

void RankProcess::Pump(Stream& stream) const {
  std::array<char, kMaxLineBytes> buffer;
  for (int reads = 0; reads < kMaxReads && stream.from; ++reads) {
    const ssize_t got = ::read(stream.from.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
      stream.from.Close();
      return WriteLines(stream, /*all=*/true);
    }
    stream.line_begun.append(buffer.data(), static_cast<std::size_t>(got));
    WriteLines(stream, /*all=*/false);
    if (stream.line_begun.size() >= kMaxLineBytes) WriteLines(stream, /*all=*/true);
  }
}

void RankProcess::WriteLines(Stream& stream, bool all) const {
  if (!tag_output_) return output_(stream.number, std::exchange(stream.line_begun, {}));
  std::string_view rest = stream.line_begun;
  std::string tagged;
  while (!rest.empty()) {
    std::size_t end = rest.find('\n');
    if (end == std::string_view::npos && !all) break;
    end = std::min(end, rest.size());
    tagged += fmt::format("[{}] {}\n", rank_, rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  stream.line_begun = std::string(rest);
  return output_(stream.number, tagged);
}

}  // namespace rondo
