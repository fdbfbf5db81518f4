#include "tools/run/rank_process.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace rondo {
namespace {

constexpr std::size_t kReadBytes = 64 << 10;
// The largest number of reads in one call. Without a limit, a rank that never stops writing would block the launcher's
// other work. With this limit one call reads more than the capacity of a pipe.
constexpr int kMaxReads = 32;

// Our environment without the variables to leave out, and with the variables of the options. If a name occurs twice,
// the later value counts.
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
  process->output_ = options.output;
  ChildOptions child{.command = options.command, .environment = MergedEnvironment(options), .guard = options.guard};
  std::vector<Fd> write_ends;  // kept open until the child has inherited them
  for (const int number : options.relayed) {
    RONDO_ASSIGN(Pipe pipe, MakePipe());
    (number == STDOUT_FILENO ? child.out : child.err) = pipe.write.get();
    ::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
    process->streams_.push_back({number, std::move(pipe.read)});
    write_ends.push_back(std::move(pipe.write));
  }
  Fd read_end;  // kept open until the child has inherited it
  if (options.input == RankInput::kOurs) child.in = STDIN_FILENO;
  if (options.input == RankInput::kFed) {
    RONDO_ASSIGN(Pipe pipe, MakePipe());
    ::fcntl(pipe.write.get(), F_SETFL, O_NONBLOCK);
    child.in = pipe.read.get();
    process->input_ = std::move(pipe.write);
    read_end = std::move(pipe.read);
  }
  RONDO_ASSIGN(process->child_, ChildProcess::Start(child));
  return process;
}

void RankProcess::AddDescriptors(std::vector<pollfd>& fds) const {
  for (const Stream& stream : streams_)
    if (stream.from) fds.push_back({stream.from.get(), POLLIN, 0});
  if (!unread_.empty()) fds.push_back({input_.get(), POLLOUT, 0});
}

void RankProcess::PumpOutput() {
  for (Stream& stream : streams_) Pump(stream);
}

void RankProcess::FinishOutput() {
  PumpOutput();
  for (Stream& stream : streams_)
    if (stream.from) End(stream);
}

void RankProcess::Pump(Stream& stream) const {
  std::array<char, kReadBytes> buffer;
  for (int reads = 0; reads < kMaxReads && stream.from; ++reads) {
    const ssize_t got = ::read(stream.from.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) return End(stream);
    output_(rank_, stream.number, std::string_view(buffer.data(), static_cast<std::size_t>(got)));
  }
}

void RankProcess::Feed(std::string_view bytes) {
  if (!input_) return;
  input_ends_ = input_ends_ || bytes.empty();
  unread_ += bytes;
  PumpInput();
}

void RankProcess::PumpInput() {
  std::size_t sent = 0;
  while (input_ && sent < unread_.size()) {
    const ssize_t written = ::write(input_.get(), unread_.data() + sent, unread_.size() - sent);
    if (written >= 0) {
      sent += static_cast<std::size_t>(written);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {  // the rank has closed its stdin
      input_.Close();
    }
  }
  unread_.erase(0, input_ ? sent : std::string::npos);
  if (input_ends_ && unread_.empty()) input_.Close();
}

void RankProcess::End(Stream& stream) const {
  stream.from.Close();
  output_(rank_, stream.number, {});
}

}  // namespace rondo
