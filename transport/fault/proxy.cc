#include "transport/fault/proxy.h"

#include <fmt/core.h>

#include <algorithm>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/address.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <deque>
#include <functional>
#include <future>
#include <list>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/service_thread.h"
#include "base/tasks.h"
#include "transport/fault/connection.h"

namespace rondo::fault {
namespace {

using Tcp = asio::ip::tcp;

constexpr int kBacklog = 128;
constexpr auto kAcceptPause = std::chrono::milliseconds(20);

Result<asio::ip::address> ParseAddress(std::string_view text) {
  asio::error_code error;
  const auto address = asio::ip::make_address(std::string(text), error);
  if (error) return Fail(ErrorCode::kInvalidArgument, "expected a numeric address for a proxy, got '{}'", text);
  return address;
}

// Parses "10.0.0.1:29500" or "[::1]:29500".
Result<Tcp::endpoint> ParseEndpoint(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  std::uint16_t port = 0;
  const std::string_view digits = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  const auto [end, wrong] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (digits.empty() || wrong != std::errc() || end != digits.data() + digits.size() || port == 0) {
    return Fail(ErrorCode::kInvalidArgument,
                "'{}' is not a proxy's target: expected ADDRESS:PORT, such as 127.0.0.1:29500", text);
  }
  std::string_view host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  RONDO_ASSIGN(const asio::ip::address address, ParseAddress(host));
  return Tcp::endpoint(address, port);
}

Error SystemFailure(const Tcp::endpoint& at, std::string_view what, const asio::error_code& error) {
  // EADDRINUSE is compared as a number, because Asio's error category cannot be compared with std::errc.
  const bool taken = error.value() == EADDRINUSE;
  const bool not_ours = error.value() == EADDRNOTAVAIL;
  return Error(taken      ? ErrorCode::kAddressInUse
               : not_ours ? ErrorCode::kInvalidArgument
                          : ErrorCode::kResource,
               fmt::format("a proxy cannot {} {}:{}: {}", what, at.address().to_string(), at.port(), error.message()));
}

// Opens and binds a socket. SO_REUSEADDR allows a listener in addition to the socket that reserves its port.
template <typename AnySocket>
asio::error_code BindTo(AnySocket& socket, const Tcp::endpoint& at) {
  asio::error_code error;
  socket.open(at.protocol(), error);
  if (!error) socket.set_option(Tcp::acceptor::reuse_address(true), error);
  if (!error) socket.bind(at, error);
  return error;
}

}  // namespace

struct Proxy::Impl {
  struct Listener {
    Listener(asio::io_context& io, ProxyRoute from, Tcp::endpoint to)
        : route(std::move(from)), target(std::move(to)), holder(io), acceptor(io), retry(io) {}
    const ProxyRoute route;
    const Tcp::endpoint target;
    Tcp::socket holder;      // bound, but never listens: it reserves the port while there is no listener
    Tcp::acceptor acceptor;  // one accept is pending while the acceptor is open and `waiting` is empty
    asio::steady_timer retry;
    Tcp::endpoint at;
    bool paused = false;
    std::optional<Tcp::socket> waiting;  // a connection accepted while paused; others wait in the kernel
  };

  Impl(ProxyOptions given, std::shared_ptr<const Clock> time)
      : options(std::move(given)), clock(std::move(time)), work(io.get_executor()) {}

  // Runs `action` on the proxy's thread and waits for its result.
  template <typename F>
  auto Do(F action) {
    using Value = decltype(action());
    std::promise<Value> done;
    asio::post(io, [&] {
      if constexpr (std::is_void_v<Value>) {
        action();
        done.set_value();
      } else {
        done.set_value(action());
      }
    });
    return done.get_future().get();
  }

  // Called only on the proxy's thread:
  Result<std::uint16_t> Listen(ProxyRoute route);
  Status Open(Listener& listener);
  void Accept(Listener& listener);
  void Take(Listener& listener, Tcp::socket client);
  Result<std::vector<Listener*>> Named(const std::string& name);
  std::vector<std::shared_ptr<Connection>> ConnectionsOf(const std::string& name) const;
  Result<ToxicHandle> Add(Scope scope, Toxic toxic);
  void Remove(const ToxicHandle& toxic);
  Status SetPaused(const std::string& name, bool paused);
  Status Refuse(const std::string& name);
  Status AcceptAgain(const std::string& name);

  const ProxyOptions options;
  const std::shared_ptr<const Clock> clock;
  ProxyCounters counters;

  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work;

  // Only the proxy's thread uses these:
  std::list<Listener> listeners;
  std::map<std::string, std::uint64_t> accepted;  // by the listener's name: the number of accepted connections
  std::vector<std::shared_ptr<Connection>> connections;
  std::vector<std::shared_ptr<Toxicity>> toxics;
  std::uint64_t last_toxic = 0;

  std::thread thread;
};

Result<std::uint16_t> Proxy::Impl::Listen(ProxyRoute route) {
  RONDO_ASSIGN(const asio::ip::address at, ParseAddress(route.at));
  RONDO_ASSIGN(Tcp::endpoint target, ParseEndpoint(route.to));
  auto& listener = listeners.emplace_back(io, std::move(route), std::move(target));
  const Tcp::endpoint any_port(at, 0);
  asio::error_code error = BindTo(listener.holder, any_port);
  if (!error) listener.at = listener.holder.local_endpoint(error);
  const Status opened = error ? Fail(SystemFailure(any_port, "bind to", error)) : Open(listener);
  if (!opened) {
    listeners.pop_back();
    return Fail(opened.error());
  }
  return listener.at.port();
}

Status Proxy::Impl::Open(Listener& listener) {
  asio::error_code error = BindTo(listener.acceptor, listener.at);
  if (!error) listener.acceptor.listen(kBacklog, error);
  if (error) {
    asio::error_code ignored;
    listener.acceptor.close(ignored);
    return Fail(SystemFailure(listener.at, "listen on", error));
  }
  if (!listener.waiting) Accept(listener);
  return {};
}

void Proxy::Impl::Accept(Listener& listener) {
  listener.acceptor.async_accept([this, &listener](const asio::error_code& error, Tcp::socket client) {
    if (error == asio::error::operation_aborted) return;
    if (error) {  // without a pause this thread would spin when no descriptors are left
      listener.retry.expires_after(kAcceptPause);
      listener.retry.async_wait([this, &listener](const asio::error_code& ended) {
        if (!ended && listener.acceptor.is_open()) Accept(listener);
      });
      return;
    }
    counters.connections.fetch_add(1, std::memory_order_release);
    if (listener.paused) {
      counters.paused.Fire();
      listener.waiting = std::move(client);
      return;
    }
    Take(listener, std::move(client));
    Accept(listener);
  });
}

void Proxy::Impl::Take(Listener& listener, Tcp::socket client) {
  const std::uint64_t number = ++accepted[listener.route.name];
  if (connections.size() >= options.max_connections) {
    counters.beyond_limit.fetch_add(1, std::memory_order_release);
    asio::error_code ignored;
    client.set_option(asio::socket_base::linger(true, 0), ignored);
    client.close(ignored);
    return;
  }
  ConnectionSetUp set_up;
  set_up.listener = listener.route.name;
  set_up.number = number;
  set_up.seed = Random(options.seed ^ Random(number).Next()).Next();
  set_up.buffer_bytes = options.buffer_bytes;
  set_up.target = listener.target;
  if (listener.route.recognise) set_up.recogniser = listener.route.recognise();
  // `self` gets its value later, because the callback is made before the connection exists.
  const auto self = std::make_shared<Connection*>(nullptr);
  auto connection = std::make_shared<Connection>(
      io, *clock, counters, std::move(client), std::move(set_up),
      [this, self] { std::erase_if(connections, [&](const auto& other) { return other.get() == *self; }); });
  *self = connection.get();
  connections.push_back(connection);
  for (const auto& toxicity : toxics) connection->Add(toxicity);
  connection->Start();
}

Result<std::vector<Proxy::Impl::Listener*>> Proxy::Impl::Named(const std::string& name) {
  std::vector<Listener*> named;
  for (Listener& listener : listeners)
    if (name.empty() || listener.route.name == name) named.push_back(&listener);
  if (named.empty() && !name.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "this proxy has no listener called '{}'", name);
  }
  return named;
}

std::vector<std::shared_ptr<Connection>> Proxy::Impl::ConnectionsOf(const std::string& name) const {
  // A copy, because `connections` may change while the caller loops over the result.
  std::vector<std::shared_ptr<Connection>> named;
  for (const auto& connection : connections)
    if (name.empty() || connection->listener() == name) named.push_back(connection);
  return named;
}

Result<ToxicHandle> Proxy::Impl::Add(Scope scope, Toxic toxic) {
  RONDO_TRY(Check(scope, toxic));
  RONDO_TRY(Named(scope.listener));
  const auto toxicity = std::make_shared<Toxicity>(std::move(scope), toxic, ++last_toxic);
  toxics.push_back(toxicity);
  for (const auto& connection : ConnectionsOf(toxicity->scope.listener)) connection->Add(toxicity);
  return toxicity;
}

void Proxy::Impl::Remove(const ToxicHandle& toxic) {
  if (std::erase_if(toxics, [&](const auto& other) { return other == toxic; }) == 0) return;
  for (const auto& connection : ConnectionsOf(toxic->scope.listener)) connection->Remove(*toxic);
}

Status Proxy::Impl::SetPaused(const std::string& name, bool paused) {
  RONDO_ASSIGN(const std::vector<Listener*> named, Named(name));
  for (Listener* const listener : named) {
    listener->paused = paused;
    if (paused || !listener->waiting) continue;
    Tcp::socket client = std::move(*listener->waiting);
    listener->waiting.reset();
    Take(*listener, std::move(client));
    if (listener->acceptor.is_open()) Accept(*listener);
  }
  for (const auto& connection : ConnectionsOf(name)) connection->Hold(paused);
  return {};
}

Status Proxy::Impl::Refuse(const std::string& name) {
  RONDO_ASSIGN(const std::vector<Listener*> named, Named(name));
  for (Listener* const listener : named) {
    asio::error_code ignored;
    listener->retry.cancel();
    listener->acceptor.close(ignored);
    // Connects to the listener once, because only the kernel can show whether clients are refused.
    Tcp::socket probe(io);
    asio::error_code answer;
    probe.connect(listener->at, answer);
    if (answer != asio::error::connection_refused) {
      return Fail(SystemFailure(listener->at, "give up listening on", answer));
    }
    counters.refused.Fire();
  }
  return {};
}

Status Proxy::Impl::AcceptAgain(const std::string& name) {
  RONDO_ASSIGN(const std::vector<Listener*> named, Named(name));
  for (Listener* const listener : named)
    if (!listener->acceptor.is_open()) RONDO_TRY(Open(*listener));
  return {};
}

// ---- any thread ----

Proxy::Proxy(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::shared_ptr<Proxy>> Proxy::Start(ProxyOptions options) {
  if (options.buffer_bytes == 0)
    return Fail(ErrorCode::kInvalidArgument, "buffer_bytes of a proxy is 0, so the proxy could forward nothing");
  if (options.max_connections == 0) {
    return Fail(ErrorCode::kInvalidArgument,
                "max_connections of a proxy is 0, so the proxy could accept no connection");
  }
  try {  // Asio and std::thread throw if the system has no descriptors, memory or threads left
    std::shared_ptr<const Clock> clock = options.clock ? options.clock : std::make_shared<const SteadyClock>();
    auto impl = std::make_unique<Impl>(std::move(options), std::move(clock));
    try {
      impl->thread = StartServiceThread("rondo-proxy", [io = &impl->io] { io->run(); });
    } catch (const std::system_error& error) {
      return Fail(ErrorCode::kResource, "the proxy's thread cannot be started: {}", TaskWords(error.code().value()));
    }
    return std::shared_ptr<Proxy>(new Proxy(std::move(impl)));
  } catch (const std::system_error& error) {
    return Fail(ErrorCode::kResource, "a proxy cannot be set up: {}", error.what());
  }
}

Proxy::~Proxy() {
  impl_->Do([this] {
    for (const auto& connection : impl_->ConnectionsOf("")) connection->Reset();
  });
  impl_->work.reset();
  impl_->io.stop();
  impl_->thread.join();
}

Result<std::uint16_t> Proxy::Listen(ProxyRoute route) {
  return impl_->Do([&] { return impl_->Listen(std::move(route)); });
}

Result<ToxicHandle> Proxy::Add(Scope scope, Toxic toxic) {
  return impl_->Do([&] { return impl_->Add(std::move(scope), toxic); });
}

void Proxy::Remove(const ToxicHandle& toxic) {
  impl_->Do([&] { impl_->Remove(toxic); });
}

void Proxy::RemoveAll() {
  impl_->Do([&] {
    const std::vector<std::shared_ptr<Toxicity>> all = impl_->toxics;
    for (const auto& toxicity : all) impl_->Remove(toxicity);
  });
}

Status Proxy::Pause(const std::string& listener) {
  return impl_->Do([&] { return impl_->SetPaused(listener, true); });
}

Status Proxy::Resume(const std::string& listener) {
  return impl_->Do([&] { return impl_->SetPaused(listener, false); });
}

Status Proxy::Refuse(const std::string& listener) {
  return impl_->Do([&] { return impl_->Refuse(listener); });
}

Status Proxy::AcceptAgain(const std::string& listener) {
  return impl_->Do([&] { return impl_->AcceptAgain(listener); });
}

const ProxyCounters& Proxy::counters() const { return impl_->counters; }

}  // namespace rondo::fault
