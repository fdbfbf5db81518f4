#include "rendezvous/launchers/pmi2_protocol.h"

#include <fmt/core.h>

#include <charconv>

namespace rondo::pmi2 {
namespace {

constexpr std::size_t kLengthBytes = 6;

std::string Escaped(std::string_view value) {
  std::string escaped;
  for (const char byte : value) escaped.append(byte == ';' ? 2 : 1, byte);
  return escaped;
}

std::string Message(const std::string& body) { return fmt::format("{:>6}{}", body.size(), body); }

// Removes one item from the front of `rest`, including the semicolon (not doubled) that ends it. Returns nullopt if
// there is no such semicolon.
std::optional<std::string> TakeItem(std::string_view& rest) {
  std::string item;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    if (rest[i] == ';') {
      if (i + 1 == rest.size() || rest[i + 1] != ';') {
        rest.remove_prefix(i + 1);
        return item;
      }
      ++i;
    }
    item += rest[i];
  }
  return std::nullopt;
}

}  // namespace

std::string Init() { return "cmd=init pmi_version=2 pmi_subversion=0\n"; }
std::string FullInit(std::string_view job, Rank rank) {
  return Message(fmt::format("cmd=fullinit;pmijobid={};pmirank={};threaded=FALSE;", Escaped(job), rank));
}
std::string KvsPut(std::string_view key, std::string_view value) {
  return Message(fmt::format("cmd=kvs-put;key={};value={};", Escaped(key), Escaped(value)));
}
std::string KvsFence() { return Message("cmd=kvs-fence;"); }
std::string KvsGet(std::string_view job, std::string_view key) {
  return Message(fmt::format("cmd=kvs-get;jobid={};srcid=-1;key={};", Escaped(job), Escaped(key)));
}
std::string Finalize() { return Message("cmd=finalize;"); }

Result<std::optional<PmiReply>> TakeReply(std::string& unread) {
  if (unread.size() < kLengthBytes) return std::nullopt;
  std::string_view digits = std::string_view(unread).substr(0, kLengthBytes);
  while (digits.starts_with(' ')) digits.remove_prefix(1);
  while (digits.ends_with(' ')) digits.remove_suffix(1);
  std::size_t bytes = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bytes);
  if (error != std::errc{} || end != digits.data() + digits.size() || bytes > kMaxPmiReplyBytes) {
    return Fail(ErrorCode::kProtocol, "'{}' is not the length of a PMI-2 response", unread.substr(0, kLengthBytes));
  }
  if (unread.size() < kLengthBytes + bytes) return std::nullopt;
  const std::string body = unread.substr(kLengthBytes, bytes);
  unread.erase(0, kLengthBytes + bytes);

  PmiReply reply;
  for (std::string_view rest = body; !rest.empty();) {
    const auto item = TakeItem(rest);
    const std::size_t equals = item ? item->find('=') : std::string::npos;
    if (equals == std::string::npos) {
      return Fail(ErrorCode::kProtocol, "'{}' is not a valid PMI-2 response", body.substr(0, 40));
    }
    reply.fields.emplace(item->substr(0, equals), item->substr(equals + 1));
  }
  reply.command = reply.Field("cmd");
  return reply;
}

}  // namespace rondo::pmi2
