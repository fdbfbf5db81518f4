// One interface for all stores under test. A StoreWorld opens any number of handles on one store.
#pragma once

#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/access.h"
#include "base/clock.h"
#include "base/log.h"
#include "rendezvous/file_store.h"
#include "rendezvous/memory_store.h"
#include "rendezvous/prefix_store.h"
#include "rendezvous/tcp_store_client.h"
#include "rendezvous/tcp_store_server.h"
#include "tests/support/own_places.h"
#include "tests/support/tls_files.h"

namespace rondo {

// A deadline that is late enough for a loaded machine; a test that reaches it has failed.
inline TimePoint Soon(Duration from_now = std::chrono::seconds(30)) { return SteadyClock().Now() + from_now; }
inline TimePoint InMs(int ms) { return Soon(std::chrono::milliseconds(ms)); }

// Keeps all lines, for tests that check what was logged.
class RecordingLogger final : public Logger {
 public:
  void Write(LogLevel, std::string_view text) override {
    const std::lock_guard lock(mutex_);
    lines_.emplace_back(text);
  }
  std::vector<std::string> lines() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

class StoreWorld {
 public:
  virtual ~StoreWorld() = default;
  virtual const char* name() const = 0;
  // Opens another handle on the same store, as another process would.
  virtual std::shared_ptr<Store> Open() = 0;
};

class MemoryWorld : public StoreWorld {
 public:
  const char* name() const override { return "memory"; }
  std::shared_ptr<Store> Open() override { return store_; }

 private:
  std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
};

class PrefixWorld : public StoreWorld {
 public:
  const char* name() const override { return "prefix over memory"; }
  std::shared_ptr<Store> Open() override { return std::make_shared<PrefixStore>(inner_, "corner/"); }

 private:
  MemoryStore inner_;
};

class FileWorld : public StoreWorld {
 public:
  const char* name() const override { return "file"; }
  std::shared_ptr<Store> Open() override {
    FileStore::Options options;
    options.path = directory_.File("store");
    options.job = "job";
    options.deadline = Soon();
    auto store = FileStore::Open(std::move(options));
    REQUIRE_MESSAGE(store.has_value(), store.error().ToString());
    return std::shared_ptr<Store>(std::move(*store));
  }

 private:
  TemporaryDirectory directory_;
};

inline std::unique_ptr<TcpStoreServer> StartServer(TcpStoreServer::Options options = {}) {
  if (options.host.empty() && !options.listen_fd) options.host = "127.0.0.1";
  options.deadline = Soon();
  auto server = TcpStoreServer::Start(options);
  REQUIRE_MESSAGE(server.has_value(), server.error().ToString());
  return std::move(*server);
}

inline Result<std::unique_ptr<TcpStoreClient>> ConnectTo(const TcpStoreServer& server, const std::string& job = "",
                                                         TimePoint deadline = Soon(),
                                                         std::shared_ptr<const JobToken> token = nullptr,
                                                         std::shared_ptr<const TlsContext> tls = nullptr) {
  TcpStoreClient::Options options;
  options.token = std::move(token);
  options.address = *ParseHostPort(server.address());
  options.job = job;
  options.deadline = deadline;
  options.tls = std::move(tls);
  return TcpStoreClient::Connect(options);
}

inline std::shared_ptr<TcpStoreClient> ClientOf(const TcpStoreServer& server,
                                                std::shared_ptr<const TlsContext> tls = nullptr) {
  auto client = ConnectTo(server, "", Soon(), nullptr, std::move(tls));
  REQUIRE_MESSAGE(client.has_value(), client.error().ToString());
  return std::move(*client);
}

inline std::shared_ptr<const JobToken> TokenOf(std::string_view text) { return *JobToken::Make(text, "the token"); }

inline std::shared_ptr<const TlsContext> TlsOf(const TlsOptions& options) {
  auto made = TlsContext::Make(options);
  REQUIRE_MESSAGE(made.has_value(), made.error().ToString());
  return *made;
}

class TcpWorld : public StoreWorld {
 public:
  TcpWorld(const char* name, std::string host, std::shared_ptr<const JobToken> token = nullptr,
           std::shared_ptr<const TlsContext> tls = nullptr)
      : name_(name), token_(std::move(token)), tls_(std::move(tls)), server_(Start(std::move(host), token_, tls_)) {}
  const char* name() const override { return name_; }
  std::shared_ptr<Store> Open() override {
    auto client = ConnectTo(*server_, "", Soon(), token_, tls_);
    REQUIRE_MESSAGE(client.has_value(), client.error().ToString());
    return std::move(*client);
  }

 private:
  static std::unique_ptr<TcpStoreServer> Start(std::string host, std::shared_ptr<const JobToken> token,
                                               std::shared_ptr<const TlsContext> tls) {
    TcpStoreServer::Options options;
    options.host = std::move(host);
    options.token = std::move(token);
    options.tls = std::move(tls);
    return StartServer(std::move(options));
  }
  const char* const name_;
  const std::shared_ptr<const JobToken> token_;
  const std::shared_ptr<const TlsContext> tls_;
  const std::unique_ptr<TcpStoreServer> server_;
};

using MakeWorld = std::function<std::unique_ptr<StoreWorld>()>;

inline std::vector<MakeWorld> AllStoreWorlds() {
  return {
      [] { return std::make_unique<MemoryWorld>(); },
      [] { return std::make_unique<PrefixWorld>(); },
      [] { return std::make_unique<FileWorld>(); },
      [] { return std::make_unique<TcpWorld>("tcp over IPv4", "127.0.0.1"); },
      [] { return std::make_unique<TcpWorld>("tcp over IPv6", "::1"); },
      [] { return std::make_unique<TcpWorld>("tcp with a token", "127.0.0.1", TokenOf("secret")); },
      [] { return std::make_unique<TcpWorld>("tcp with TLS", "127.0.0.1", nullptr, TlsOf(testing::PskOf('k'))); },
      [] {
        return std::make_unique<TcpWorld>("tcp with a token and TLS", "127.0.0.1", TokenOf("secret"),
                                          TlsOf(testing::PskOf('k')));
      },
  };
}

// Runs `test` once with a new store of each kind.
inline void ForEachStore(const std::function<void(StoreWorld&)>& test) {
  for (const MakeWorld& make : AllStoreWorlds()) {
    const auto world = make();
    const std::string store = world->name();
    CAPTURE(store);
    test(*world);
  }
}

// Waits until the server's counters satisfy `wanted`. Returns false if that takes longer than 30 s. It polls, because a
// server does not report changes.
template <typename Wanted>
bool Reaches(const TcpStoreServer& server, const Wanted& wanted) {
  for (const TimePoint deadline = Soon(); SteadyClock().Now() < deadline; std::this_thread::yield()) {
    if (wanted(server.stats())) return true;
  }
  return false;
}

}  // namespace rondo
