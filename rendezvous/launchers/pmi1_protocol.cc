#include "rendezvous/launchers/pmi1_protocol.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/check.h"

namespace rondo::pmi1 {
namespace {

std::string_view Word(std::string_view word) {
  RONDO_CHECK(word.find_first_of(" \n") == std::string_view::npos,
              "'{}' contains a space or a line end, so it cannot be a word of PMI-1", word);
  return word;
}

}  // namespace

std::string Init() { return "cmd=init pmi_version=1 pmi_subversion=1\n"; }
std::string GetMyKvsName() { return "cmd=get_my_kvsname\n"; }
std::string Put(std::string_view kvs, std::string_view key, std::string_view value) {
  return fmt::format("cmd=put kvsname={} key={} value={}\n", Word(kvs), Word(key), Word(value));
}
std::string BarrierIn() { return "cmd=barrier_in\n"; }
std::string Get(std::string_view kvs, std::string_view key) {
  return fmt::format("cmd=get kvsname={} key={}\n", Word(kvs), Word(key));
}
std::string Finalize() { return "cmd=finalize\n"; }

Result<std::optional<PmiReply>> TakeReply(std::string& unread) {
  const std::size_t end = unread.find('\n');
  if (end == std::string::npos && unread.size() <= kMaxPmiReplyBytes) return std::nullopt;
  const std::string line = unread.substr(0, end);
  if (end == std::string::npos || line.size() > kMaxPmiReplyBytes || !line.starts_with("cmd=")) {
    return Fail(ErrorCode::kProtocol, "'{}' is not a valid PMI-1 response", line.substr(0, 40));
  }
  unread.erase(0, end + 1);

  PmiReply reply;
  for (std::string_view rest = line; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    const std::size_t equals = word.find('=');
    // A word without '=' is empty (after a second space), or is part of a message for people.
    if (equals == std::string_view::npos) continue;
    reply.fields.emplace(word.substr(0, equals), word.substr(equals + 1));
  }
  reply.command = reply.Field("cmd");
  return reply;
}

}  // namespace rondo::pmi1
