#include "base/net/resolve.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "base/net/fd.h"
#include "base/out_of_memory.h"
#include "base/service_thread.h"
#include "base/tasks.h"

namespace rondo {
namespace {

struct Lookup {
  int error = 0;   // the result of getaddrinfo
  int system = 0;  // errno, if error is EAI_SYSTEM
  std::vector<SocketAddress> addresses;
};

Lookup LookUp(const HostPort& host_port, ResolveFor purpose, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags | (purpose == ResolveFor::kListen ? AI_PASSIVE : 0);
  addrinfo* list = nullptr;
  Lookup lookup;
  lookup.error = getaddrinfo(host_port.host.empty() ? nullptr : host_port.host.c_str(),
                             std::to_string(host_port.port).c_str(), &hints, &list);
  lookup.system = errno;
  if (lookup.error != 0) return lookup;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    const std::optional<SocketAddress> address = FromRaw(entry->ai_addr);
    if (address && std::find(lookup.addresses.begin(), lookup.addresses.end(), *address) == lookup.addresses.end())
      lookup.addresses.push_back(*address);
  }
  freeaddrinfo(list);
  return lookup;
}

// getaddrinfo takes no deadline, so a separate thread calls it. If the deadline passes, that thread keeps running; this
// is safe because it owns the data that it uses.
std::optional<Lookup> LookUpUntil(const HostPort& host_port, ResolveFor purpose, Duration patience) {
  struct Shared {
    std::mutex mutex;
    std::condition_variable done;
    std::optional<Lookup> lookup;
  };
  auto shared = std::make_shared<Shared>();
  try {
    StartServiceThread("rondo-resolve", [shared, host_port, purpose] {
      Lookup lookup{.error = EAI_MEMORY, .system = 0, .addresses = {}};
      IfMemoryAllows([&] { lookup = LookUp(host_port, purpose, 0); });
      const std::lock_guard lock(shared->mutex);
      shared->lookup = std::move(lookup);
      shared->done.notify_all();
    }).detach();
  } catch (const std::system_error& failed) {  // the system cannot start a thread
    return Lookup{.error = EAI_SYSTEM, .system = failed.code().value(), .addresses = {}};
  }
  std::unique_lock lock(shared->mutex);
  shared->done.wait_for(lock, std::min<Duration>(patience, std::chrono::hours(1)),
                        [&] { return shared->lookup.has_value(); });
  return std::move(shared->lookup);
}

}  // namespace

std::string HostPort::ToString() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

Result<HostPort> ParseHostPort(std::string_view text) {
  HostPort parsed;
  std::string_view port;
  if (text.starts_with('[')) {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos) {
      return Fail(ErrorCode::kInvalidArgument, "'{}' lacks the ']' that ends an IPv6 address", text);
    }
    parsed.host = text.substr(1, close - 1);
    const std::string_view rest = text.substr(close + 1);
    if (!rest.starts_with(':')) {
      return Fail(ErrorCode::kInvalidArgument, "'{}' lacks ':PORT' after the host", text);
    }
    port = rest.substr(1);
  } else {
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos) {
      return Fail(ErrorCode::kInvalidArgument, "'{}' lacks ':PORT' after the host", text);
    }
    if (text.find(':', colon + 1) != std::string_view::npos) {
      return Fail(ErrorCode::kInvalidArgument,
                  "'{}' has several colons; write an IPv6 address in brackets, such as [::1]:29500", text);
    }
    parsed.host = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  const auto never_in_a_host = [](unsigned char c) { return c <= ' ' || c == 0x7f || c == '[' || c == ']'; };
  if (std::any_of(parsed.host.begin(), parsed.host.end(), never_in_a_host)) {
    return Fail(ErrorCode::kInvalidArgument, "the host of '{}' contains a bracket, a blank or a control character",
                text);
  }
  if (parsed.host.empty()) return Fail(ErrorCode::kInvalidArgument, "'{}' lacks a host before the port", text);
  if (parsed.host.size() > 255) {
    return Fail(ErrorCode::kInvalidArgument, "the host of '{}...' has {} bytes; at most 255 are allowed",
                text.substr(0, 40), parsed.host.size());
  }
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), parsed.port);
  if (port.empty() || error != std::errc{} || end != port.data() + port.size()) {
    return Fail(ErrorCode::kInvalidArgument, "port '{}' of '{}' is not a number from 0 to 65535", port, text);
  }
  return parsed;
}

Result<std::vector<SocketAddress>> Resolve(const HostPort& host_port, ResolveFor purpose, const Clock& clock,
                                           TimePoint deadline) {
  std::optional<Lookup> lookup = LookUp(host_port, purpose, host_port.host.empty() ? 0 : AI_NUMERICHOST);
  if (lookup->error != 0) lookup = LookUpUntil(host_port, purpose, deadline - clock.Now());
  if (!lookup) {
    return Fail(ErrorCode::kUnreachable, "the name service did not answer in time about host '{}'", host_port.host);
  }
  if (lookup->error != 0) {
    return Fail(ErrorCode::kUnreachable, "host '{}' was not found: {}", host_port.host,
                lookup->error == EAI_SYSTEM ? TaskWords(lookup->system) : gai_strerror(lookup->error));
  }
  return std::move(lookup->addresses);
}

bool IsLocal(const SocketAddress& address) {
  const RawSocketAddress any_port = ToRaw({address.ip, 0});
  const Fd socket(::socket(any_port.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return socket && bind(socket.get(), any_port.get(), any_port.bytes) == 0;
}

}  // namespace rondo
