#include "rendezvous/tcp_store_server.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <exception>
#include <future>
#include <list>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/net/descriptors.h"
#include "base/net/fd.h"
#include "base/net/resolve.h"
#include "base/out_of_memory.h"
#include "base/service_thread.h"
#include "base/tasks.h"
#include "base/wire.h"
#include "rendezvous/tcp_store_listener.h"

namespace rondo {
namespace {

using asio::ip::tcp;

// The largest number of bytes of one read from one client. All clients share the buffer, so idle clients need no memory
// for it.
constexpr std::size_t kRequestReadBytes = 64 << 10;
constexpr std::size_t kReadsInARow = 16;  // after this many reads from one client, other clients are served
constexpr std::size_t kWritePieces = 64;
constexpr Duration kLogPause = std::chrono::seconds(1);
// Descriptors of Asio's event loop: an epoll set, an eventfd and a timerfd.
constexpr std::size_t kLoopDescriptors = 3;

TcpStoreServer::Limits WithinDescriptors(TcpStoreServer::Limits limits) {
  rlimit descriptors{};
  if (getrlimit(RLIMIT_NOFILE, &descriptors) == 0) {
    const auto share = static_cast<std::size_t>(std::max<rlim_t>(descriptors.rlim_cur / 4, 1));
    limits.max_before_hello = std::min(limits.max_before_hello, share);
  }
  return limits;
}

}  // namespace

// Runs on its own thread; mutex_ guards the members that other threads use. A handler is called when a socket is ready,
// and then makes a system call that does not block. No call is pending between two handlers, so buffers may move then.
class TcpStoreServer::Loop {
 public:
  Loop(const Options& options, std::string name, std::shared_ptr<const Clock> clock)
      : limits_(WithinDescriptors(options.limits)),
        logger_(options.logger),
        clock_(std::move(clock)),
        tls_(options.tls),
        service_({.job = options.job, .token = options.token, .limits = options.limits.service}),
        name_(std::move(name)),
        acceptor_(io_),
        accept_pause_(io_),
        hello_timer_(io_),
        scratch_(kRequestReadBytes) {}

  ~Loop() {
    if (thread_.joinable()) {
      io_.stop();
      thread_.join();
    }
  }

  // Takes ownership of `fd` only on success.
  Status Start(int fd, int family) {
    std::error_code error;
    acceptor_.assign(family == AF_INET6 ? tcp::v6() : tcp::v4(), fd, error);
    if (!error) acceptor_.non_blocking(true, error);
    if (error) return Fail(ErrorCode::kResource, "the store's listener could not be set up: {}", error.message());
    try {
      KeepSpare();
      Accept();
      thread_ = StartServiceThread("rondo-store", [this] { Run(); });
    } catch (const std::system_error& failure) {  // the thread could not be started
      acceptor_.release(error);
      return Fail(ErrorCode::kResource, "the thread of the store's server could not be started: {}",
                  TaskWords(failure.code().value()));
    } catch (const std::exception& failure) {  // out of memory
      acceptor_.release(error);
      return Fail(ErrorCode::kResource, "the thread of the store's server could not be started: {}", failure.what());
    }
    return {};
  }

  Stats stats() const {
    const std::lock_guard lock(mutex_);
    return stats_;
  }

  bool WaitUntilNoClients(TimePoint deadline) const {
    std::unique_lock lock(mutex_);
    while (stats_.clients > 0) {
      const TimePoint now = clock_->Now();
      if (now >= deadline) return false;
      no_clients_.wait_for(lock, AtMostAnHour(deadline, now));
    }
    return true;
  }

  void TakeNoMore() {
    if (takes_no_more_) return;
    std::promise<void> done;
    asio::post(io_, [&] {
      takes_no_more_ = true;
      std::error_code ignored;
      acceptor_.close(ignored);
      accept_pause_.cancel();
      done.set_value();
    });
    done.get_future().wait();
  }

 private:
  struct Connection {
    explicit Connection(tcp::socket connected) : socket(std::move(connected)) {}
    tcp::socket socket;
    Wire wire;
    std::string peer;
    bool reading = false;  // a wait for readability is pending
    bool writing = false;  // a wait for writability is pending
    bool paused = false;   // nothing is read until the output has drained
    bool closing = false;  // the connection closes when its output is sent
    bool has_room = true;  // false: no descriptor was available, so the client will only be refused
    // This connection's entry in before_hello_; valid until the hello is complete.
    std::list<std::pair<TimePoint, TcpStoreService::ClientId>>::iterator hello;
  };
  using Id = TcpStoreService::ClientId;

  void Run() {
    for (;;) {
      try {
        io_.run();
        return;
      } catch (const std::exception& failure) {
        // If memory runs out in one handler, the store must still serve all clients.
        IfMemoryAllows([&] { Log(logger_, LogLevel::kWarning, "store {}: {}", name_, failure.what()); });
        IfMemoryAllows([&] { GoOn(); });
      }
    }
  }

  // Continues after an exception in a handler. If no handler will read from a connection, or send its output, the
  // connection is closed, so that its client detects the failure.
  void GoOn() {
    std::vector<Id> deserted;
    for (const auto& [id, connection] : connections_) {
      const bool deaf = !connection.reading && !connection.paused;
      const bool mute = !connection.writing && (!service_.output(id).empty() || connection.wire.unsent());
      if (deaf || mute) deserted.push_back(id);
    }
    for (const Id id : deserted) Close(id);
    AwaitHello();
    if (!accepting_ && !takes_no_more_) Accept();
  }

  // ---- accepting ----

  void Accept() {
    acceptor_.async_wait(tcp::acceptor::wait_read, [this](std::error_code error) {
      accepting_ = false;
      if (!error && !takes_no_more_) AcceptAll();
    });
    accepting_ = true;
  }

  void AcceptAll() {
    for (;;) {
      KeepSpare();
      std::error_code error = AcceptOne(/*has_room=*/true);
      if (error == std::errc::operation_would_block) return Accept();
      // A client that closed its connection before accept needs no action.
      if (error == std::errc::connection_aborted || error == std::errc::interrupted) continue;
      if (!error) continue;
      if (spare_ && (error == std::errc::too_many_files_open || error == std::errc::too_many_files_open_in_system)) {
        spare_.Close();
        if (AcceptOne(/*has_room=*/false)) KeepSpare();
      }
      return PauseAccepting(error);
    }
  }

  std::error_code AcceptOne(bool has_room) {
    // Uses accept4 instead of Asio's accept. A program that this process executes would inherit sockets from Asio, and
    // would keep them open after the server has ended.
    Fd fd(accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    std::error_code error(fd.get() < 0 ? errno : 0, std::system_category());
    if (error) return error;
    tcp::socket socket(io_);
    socket.assign(acceptor_.local_endpoint(error).protocol(), fd.get(), error);
    if (error) return error;
    fd.Release();
    Adopt(std::move(socket), has_room);
    return {};
  }

  void KeepSpare() {
    if (!spare_) spare_ = Fd(eventfd(0, EFD_CLOEXEC));
  }

  void PauseAccepting(const std::error_code& why) {
    Count(&Stats::accept_pauses);
    LogRarely(fmt::format("cannot accept connections for now: {}", SystemWords(why.value())));
    accept_pause_.expires_after(std::chrono::milliseconds(limits_.accept_pause_ms));
    accept_pause_.async_wait([this](std::error_code error) {
      accepting_ = false;
      if (!error && !takes_no_more_) AcceptAll();
    });
    accepting_ = true;
  }

  void Adopt(tcp::socket socket, bool has_room) {
    Count(&Stats::accepted);
    std::error_code ignored;
    socket.non_blocking(true, ignored);
    socket.set_option(tcp::no_delay(true), ignored);
    socket.set_option(asio::socket_base::keep_alive(true), ignored);
    // If a client's host disappears, unanswered probes reveal this after (2 + 1) * 10 s.
    SetNumber(socket, TCP_KEEPIDLE, 10);
    SetNumber(socket, TCP_KEEPINTVL, 10);
    SetNumber(socket, TCP_KEEPCNT, 2);
    const auto endpoint = socket.remote_endpoint(ignored);

    if (before_hello_.size() >= limits_.max_before_hello) {
      DropUnknown(before_hello_.front().second, "too many other clients connected before it sent its hello");
    }
    const Id id = service_.Connect();
    Connection& connection = connections_.try_emplace(id, std::move(socket)).first->second;
    connection.has_room = has_room;
    if (!has_room)  // the client retries until a descriptor is free
      service_.RefuseAtHello(
          id, Error(ErrorCode::kNotReady, "the store cannot accept connections: " + SystemWords(EMFILE)));
    connection.peer = fmt::format("{}:{}", endpoint.address().to_string(), endpoint.port());
    const TimePoint until = SteadyNow() + std::chrono::milliseconds(limits_.hello_timeout_ms);
    connection.hello = before_hello_.insert(before_hello_.end(), {until, id});
    if (before_hello_.size() == 1) AwaitHello();
    if (tls_) {
      auto session = TlsSession::Make(tls_, TlsSession::Role::kServer, connection.peer);
      if (!session) return DropUnknown(id, session.error().message());
      connection.wire = Wire(std::move(*session));
    }
    Read(id, connection);
  }

  // Reads and discards bytes. This is necessary because closing a socket with unread bytes sends a reset, and the reset
  // may arrive before the answer.
  static void Drain(tcp::socket& socket) {
    std::array<char, 4096> waste;
    for (int i = 0; i < 16 && recv(socket.native_handle(), waste.data(), waste.size(), MSG_DONTWAIT) > 0; ++i) {
    }
  }

  static void SetNumber(tcp::socket& socket, int name, int value) {
    setsockopt(socket.native_handle(), IPPROTO_TCP, name, &value, sizeof value);
  }

  // Asio's timers use the machine's clock, so the times in before_hello_ must also use that clock.
  static TimePoint SteadyNow() { return asio::steady_timer::clock_type::now(); }

  // The oldest connection times out first, because all have the same timeout.
  void AwaitHello() {
    if (before_hello_.empty()) return;
    hello_timer_.expires_at(before_hello_.front().first);
    hello_timer_.async_wait([this](std::error_code error) {
      if (error) return;
      while (!before_hello_.empty() && before_hello_.front().first <= SteadyNow()) {
        DropUnknown(before_hello_.front().second,
                    fmt::format("it sent no hello within {} ms", limits_.hello_timeout_ms));
      }
      AwaitHello();
    });
  }

  // ---- moving bytes ----

  void Read(Id id, Connection& connection) {
    if (connection.reading) return;
    connection.socket.async_wait(tcp::socket::wait_read, [this, id](std::error_code error) {
      Connection* found = Find(id);
      if (found == nullptr) return;
      found->reading = false;
      if (error) return Leave(id);
      OnReadable(id, *found);
    });
    connection.reading = true;
  }

  void OnReadable(Id id, Connection& connection) {
    const MutableBytes scratch = std::as_writable_bytes(std::span(scratch_));
    for (std::size_t i = 0; i < kReadsInARow; ++i) {
      if (!connection.closing && !service_.WantsInput(id)) {
        connection.paused = true;
        return;
      }
      const ssize_t got = connection.wire.Receive(connection.socket.native_handle(), scratch);
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Read(id, connection);
      if (got < 0 && connection.wire.failure() && !connection.closing) return OnTlsFailure(id, connection);
      if (got <= 0) return Leave(id);
      // The client was refused, and its further bytes are discarded. If they stayed unread, closing the connection
      // would send a reset, which could arrive before the client has read the reason.
      if (connection.closing) continue;
      if (!connection.has_room) LookForRoom(id, connection);
      const Bytes bytes = scratch.first(static_cast<std::size_t>(got));
      if (!Heed(id, connection, service_.Receive(id, bytes))) return;
      if (!connection.wire.has_tls() && bytes.size() < scratch.size()) break;
    }
    // Other clients are served first. Bytes that TLS has already read do not make the socket readable, so a posted
    // handler reads them.
    if (!connection.wire.HasReceived()) return Read(id, connection);
    asio::post(io_, [this, id] {
      Connection* found = Find(id);
      if (found == nullptr) return;
      found->reading = false;
      OnReadable(id, *found);
    });
    connection.reading = true;
  }

  // Checks once more whether a descriptor is free, because one may have become free before the client's hello arrived.
  void LookForRoom(Id id, Connection& connection) {
    KeepSpare();
    connection.has_room = static_cast<bool>(spare_);
    if (connection.has_room) service_.RefuseAtHello(id, std::nullopt);
  }

  // Closes the connection after TLS failed. The client gets the reason as a TLS alert. A Rondo client without TLS gets
  // the reason in a hello reply.
  void OnTlsFailure(Id id, Connection& connection) {
    const Error& why = *connection.wire.failure();
    if (service_.SaidHello(id)) {
      Count(&Stats::broken);
      LogRarely(fmt::format("dropped {}: {}", connection.peer, why.message()));
      return Close(id);
    }
    const int fd = connection.socket.native_handle();
    std::string beginning = ToText(connection.wire.beginning());
    const bool ours = store_protocol::TakeHello(beginning).has_value();
    if (!ours && !BeginsTls(connection.wire.beginning())) return DropUnknown(id, why.message());
    Count(&Stats::auth_failed);
    LogRarely(fmt::format("refused {}: {}", connection.peer, why.message()));
    if (ours) {
      const Error refusal(ErrorCode::kAuth, "the store requires TLS, and this process does not use it");
      Wire().SendAll(fd, AsBytes(Encode(store_protocol::HelloReply{.refused = refusal})));
    }
    // Further bytes of the client are read and discarded until the client closes. If they stayed unread, closing the
    // connection would send a reset, which could arrive before the client has read the reason. The timeout in
    // before_hello_ limits the time until the close.
    connection.closing = true;
    connection.wire = Wire();
    std::error_code ignored;
    connection.socket.shutdown(tcp::socket::shutdown_send, ignored);
    Read(id, connection);
  }

  // Acts on a verdict, and sends all pending answers, also those of other clients. False: the connection is closed.
  bool Heed(Id id, Connection& connection, const TcpStoreService::Verdict& verdict) {
    if (verdict.fate == TcpStoreService::Fate::kDrop) {
      if (!service_.SaidHello(id)) {
        // A client that begins with TLS gets an alert, so that it can report why the server does not answer.
        if (!tls_ && BeginsTls(connection.wire.beginning())) {
          connection.wire.SendAll(connection.socket.native_handle(), kTlsNotSpoken);
          Drain(connection.socket);
        }
        DropUnknown(id, verdict.reason);
      } else {
        Count(&Stats::broken);
        LogRarely(fmt::format("dropped {}: {}", connection.peer, verdict.reason));
        Close(id);
      }
      SendAnswers();
      return false;
    }
    if (verdict.fate == TcpStoreService::Fate::kClose && !connection.closing) {
      // The connection stays in before_hello_, so that its timeout also limits the time until the close.
      connection.closing = true;
      Count(verdict.auth_failed ? &Stats::auth_failed : &Stats::refused);
      LogRarely(fmt::format("refused {}: {}", connection.peer, verdict.reason));
    }
    if (service_.SaidHello(id) && connection.hello != before_hello_.end()) {
      before_hello_.erase(connection.hello);
      connection.hello = before_hello_.end();
      CountClients();
    }
    SendAnswers();
    return Find(id) != nullptr;
  }

  void SendAnswers() {
    // Repeats until no client has a new answer. A client's postponed requests do not run in this loop: when the
    // client's output has been sent, a later handler runs them (Resume).
    for (auto answered = service_.TakeAnswered(); !answered.empty(); answered = service_.TakeAnswered()) {
      for (const Id id : answered) {
        Connection* connection = Find(id);
        if (connection != nullptr && !connection->writing) Write(id, *connection);
      }
    }
  }

  void Write(Id id, Connection& connection) {
    store_protocol::Outgoing& output = service_.output(id);
    while (!output.empty()) {
      std::array<Bytes, kWritePieces> pieces;
      const std::size_t count = output.Front(pieces);
      const ssize_t sent = connection.wire.Send(connection.socket.native_handle(), std::span(pieces).first(count));
      if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return AwaitRoom(id, connection);
      if (sent < 0) return Close(id);
      output.Consume(static_cast<std::size_t>(sent));
    }
    if (!connection.wire.Flush(connection.socket.native_handle())) return AwaitRoom(id, connection);
    if (connection.closing) {
      // The reason has been sent, so the end of the stream is sent now. The client closes when it has read both.
      std::error_code ignored;
      connection.socket.shutdown(tcp::socket::shutdown_send, ignored);
      return Read(id, connection);
    }
    if (connection.paused || service_.LeftOff(id)) Resume(id, connection);
  }

  // Resumes reading and postponed requests when the output has been sent. This happens in a later handler, because the
  // current handler may be processing another client's request.
  void Resume(Id id, Connection& connection) {
    connection.paused = false;
    asio::post(io_, [this, id] {
      Connection* found = Find(id);
      if (found == nullptr || found->closing || !Heed(id, *found, service_.Resume(id))) return;
      if (service_.WantsInput(id)) {
        if (!found->reading) found->wire.HasReceived() ? OnReadable(id, *found) : Read(id, *found);
      } else {
        found->paused = true;
      }
    });
  }

  void AwaitRoom(Id id, Connection& connection) {
    connection.writing = true;
    connection.socket.async_wait(tcp::socket::wait_write, [this, id](std::error_code error) {
      Connection* found = Find(id);
      if (found == nullptr) return;
      found->writing = false;
      if (error) return Close(id);
      Write(id, *found);
      SendAnswers();
    });
  }

  // ---- ending ----

  Connection* Find(Id id) {
    const auto found = connections_.find(id);
    return found == connections_.end() ? nullptr : &found->second;
  }

  void Close(Id id) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;
    if (found->second.hello != before_hello_.end()) before_hello_.erase(found->second.hello);
    connections_.erase(found);
    service_.Disconnect(id);
    CountClients();
  }

  // Called when the client has closed its connection.
  void Leave(Id id) {
    if (service_.SaidHello(id)) return Close(id);
    DropUnknown(id, "it disconnected before its hello was complete");
  }

  void DropUnknown(Id id, const std::string& reason) {
    const Connection& connection = *Find(id);
    if (!connection.closing) {  // a closing connection was counted as refused
      Count(&Stats::unknown);
      LogRarely(fmt::format("dropped {}: {}", connection.peer, reason));
    }
    Close(id);
  }

  void Count(std::uint64_t Stats::*counter) {
    const std::lock_guard lock(mutex_);
    ++(stats_.*counter);
  }

  void CountClients() {
    const std::lock_guard lock(mutex_);
    stats_.clients = service_.clients_after_hello();
    if (stats_.clients == 0) no_clients_.notify_all();
  }

  void LogRarely(const std::string& text) {
    const TimePoint now = clock_->Now();
    if (logged_ && now - *logged_ < kLogPause) {
      ++unlogged_;
      return;
    }
    const std::string before =
        unlogged_ == 0 ? "" : fmt::format(" ({} more such events since the previous line)", unlogged_);
    Log(logger_, LogLevel::kWarning, "store {}: {}{}", name_, text, before);
    logged_ = now;
    unlogged_ = 0;
  }

  const Limits limits_;
  Logger* const logger_;
  const std::shared_ptr<const Clock> clock_;
  const std::shared_ptr<const TlsContext> tls_;

  // Used on the loop's thread only.
  TcpStoreService service_;
  const std::string name_;
  asio::io_context io_{1};
  // Keeps the loop running until io_.stop(), even if no client is connected and accept has ended.
  asio::executor_work_guard<asio::io_context::executor_type> serves_{io_.get_executor()};
  tcp::acceptor acceptor_;
  asio::steady_timer accept_pause_;
  asio::steady_timer hello_timer_;
  std::vector<char> scratch_;
  Fd spare_;  // a spare descriptor: when all others are in use, it is closed, so that one client can be accepted and
              // refused
  std::map<Id, Connection> connections_;
  std::list<std::pair<TimePoint, Id>> before_hello_;  // oldest first
  std::optional<TimePoint> logged_;
  std::uint64_t unlogged_ = 0;

  mutable std::mutex mutex_;
  mutable std::condition_variable no_clients_;
  Stats stats_;  // guarded by mutex_

  bool accepting_ = false;  // a pending handler will call AcceptAll
  std::atomic<bool> takes_no_more_{false};
  std::thread thread_;
};

TcpStoreServer::TcpStoreServer(std::unique_ptr<Loop> loop, std::string address, std::uint16_t port)
    : owner_pid_(getpid()), loop_(std::move(loop)), address_(std::move(address)), port_(port) {}

TcpStoreServer::~TcpStoreServer() {
  // A forked child must not touch the loop. The child has no serving thread, and it shares its epoll set with the
  // parent, which continues to serve.
  if (getpid() != owner_pid_) (void)loop_.release();
}

Result<std::unique_ptr<TcpStoreServer>> TcpStoreServer::Start(const Options& options) {
  const std::shared_ptr<const Clock> clock =
      options.clock != nullptr ? options.clock : std::make_shared<const SteadyClock>();
  RONDO_ASSIGN(Fd fd, OpenListener(options, *clock));
  const SocketAddress bound = LocalSocketAddress(fd.get());
  try {
    auto loop = std::make_unique<Loop>(options, "tcp://" + bound.ToString(), clock);
    RONDO_TRY(loop->Start(fd.get(), bound.ip.is_v4() ? AF_INET : AF_INET6));
    fd.Release();
    return std::unique_ptr<TcpStoreServer>(new TcpStoreServer(std::move(loop), bound.ToString(), bound.port));
  } catch (const std::system_error& failure) {  // no descriptors for Asio's event loop
    return Fail(ErrorCode::kResource, "the event loop of the store's server could not be created: {}",
                SystemWords(failure.code().value(), kLoopDescriptors));
  } catch (const std::exception& failure) {
    return Fail(ErrorCode::kResource, "the event loop of the store's server could not be created: {}", failure.what());
  }
}

TcpStoreServer::Stats TcpStoreServer::stats() const { return loop_->stats(); }

std::string TcpStoreServer::Stats::RejectedSummary() const {
  std::vector<std::string> parts;
  const auto list = [&](std::uint64_t count, std::string_view one, std::string_view what) {
    if (count != 0) parts.push_back(fmt::format("{} {}{} {}", count, one, count == 1 ? "" : "s", what));
  };
  list(unknown, "unknown client", "dropped");
  list(refused, "client", "refused");
  list(auth_failed, "client", "that could not prove to belong to the job");
  list(broken, "client", "dropped because of a protocol error");
  return fmt::format("{}", fmt::join(parts, ", "));
}

bool TcpStoreServer::WaitUntilNoClients(TimePoint deadline) const { return loop_->WaitUntilNoClients(deadline); }

void TcpStoreServer::TakeNoMore() { loop_->TakeNoMore(); }

}  // namespace rondo
