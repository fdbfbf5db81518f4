#include "tools/run/agent_words.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <utility>

#include "base/byte_codec.h"

namespace rondo {
namespace {

constexpr int kMaxWordReads = 16;  // the largest number of reads in one call; each reads up to 64 KiB

bool IsKind(std::uint8_t kind) {
  return std::string_view("hjrxsitkoep").find(static_cast<char>(kind)) != std::string_view::npos;
}

}  // namespace

Result<std::string> AgentWord::Text(std::size_t index) const {
  if (index >= texts.size())
    return Fail(ErrorCode::kProtocol, "message '{}' of the agent's protocol is too short", static_cast<char>(kind));
  return texts[index];
}

Result<std::int64_t> AgentWord::Number(std::size_t index, std::int64_t low, std::int64_t high) const {
  RONDO_ASSIGN(const std::string text, Text(index));
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    return Fail(ErrorCode::kProtocol, "message '{}' of the agent's protocol: expected a number, got '{}'",
                static_cast<char>(kind), text);
  }
  return value;
}

Result<Variables> AgentWord::VariablesFrom(std::size_t index) const {
  Variables variables;
  for (; index < texts.size(); index += 2) {
    RONDO_ASSIGN(std::string value, Text(index + 1));
    variables.emplace_back(texts[index], std::move(value));
  }
  return variables;
}

std::string Encode(const AgentWord& word) {
  ByteWriter body;
  body.Number(static_cast<std::uint8_t>(word.kind));
  for (const std::string& text : word.texts) body.Text(text);
  return ByteWriter().Text(body.bytes()).Take();
}

Result<std::optional<AgentWord>> TakeWord(std::string_view& unread) {
  ByteReader reader(unread);
  const auto size = reader.Number<std::uint32_t>();
  if (!reader.ok()) return std::nullopt;
  if (size == 0 || size > kMaxWordBytes)
    return Fail(ErrorCode::kProtocol, "a message of the agent's protocol announces {} bytes, which is not allowed",
                size);
  ByteReader body(reader.Raw(size));
  if (!reader.ok()) return std::nullopt;
  const auto kind = body.Number<std::uint8_t>();
  if (!IsKind(kind))
    return Fail(ErrorCode::kProtocol, "a message of the agent's protocol has the unknown kind {}", kind);
  AgentWord word{static_cast<AgentWordKind>(kind), {}};
  while (body.remaining() > 0) word.texts.emplace_back(body.Text());
  if (!body.ok())
    return Fail(ErrorCode::kProtocol, "message '{}' of the agent's protocol is cut off", static_cast<char>(kind));
  unread.remove_prefix(sizeof size + size);
  return word;
}

AgentStream::AgentStream(Fd in, Fd out) : in_(std::move(in)), out_(std::move(out)) {
  for (const int fd : {in_.get(), out_.get()}) ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
}

void AgentStream::SendRaw(std::string_view bytes) {
  if (deaf()) return;
  unsent_ += bytes;
  Flush();
}

void AgentStream::Flush() {
  std::size_t sent = 0;
  while (!deaf() && sent < unsent_.size()) {
    const ssize_t written = ::write(out_.get(), unsent_.data() + sent, unsent_.size() - sent);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) break;
    if (written < 0) CloseOut();
    if (written > 0) sent += static_cast<std::size_t>(written);
  }
  unsent_.erase(0, sent);
}

void AgentStream::CloseOut() {
  out_.Close();
  unsent_.clear();
}

Result<std::optional<AgentWord>> AgentStream::Next() {
  std::string_view unread = std::string_view(received_).substr(taken_);
  auto word = TakeWord(unread);
  taken_ = received_.size() - unread.size();
  return word;
}

Result<bool> AgentStream::TakeMagic() {
  const std::size_t at = received_.find(kAgentMagic);
  if (at != std::string::npos) {
    taken_ = at + kAgentMagic.size();
    return true;
  }
  if (received_.size() <= kMaxBeforeMagic) return false;
  return Fail(ErrorCode::kProtocol, "received {} bytes that are not from rondo's agent", received_.size());
}

void AgentStream::Receive() {
  received_.erase(0, std::exchange(taken_, 0));
  std::array<char, 64 << 10> buffer;
  for (int reads = 0; reads < kMaxWordReads && !over(); ++reads) {
    const ssize_t got = ::read(in_.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
      in_.Close();
    } else {
      received_.append(buffer.data(), static_cast<std::size_t>(got));
    }
  }
}

void AgentStream::AddDescriptors(std::vector<pollfd>& fds) const {
  if (in_) fds.push_back({in_.get(), POLLIN, 0});
  if (out_ && !unsent_.empty()) fds.push_back({out_.get(), POLLOUT, 0});
}

}  // namespace rondo
