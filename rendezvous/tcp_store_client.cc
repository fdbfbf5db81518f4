#include "rendezvous/tcp_store_client.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <utility>

#include "base/net/descriptors.h"
#include "base/net/fd.h"
#include "base/net/ports.h"
#include "base/random.h"
#include "rendezvous/tcp_store_handshake.h"
#include "rendezvous/tcp_store_protocol.h"

namespace rondo {
namespace {

constexpr Duration kFirstPause = std::chrono::milliseconds(5);
constexpr Duration kLongestPause = std::chrono::seconds(1);
// The time limit for connecting to one address, if others remain to be tried.
constexpr Duration kConnectPatience = std::chrono::seconds(3);
// If this host has no free local port, Connect ends before its deadline: it leaves half of its time unused, but at most
// this much. In the unused time the process can report the failure to other ranks, whose deadlines may be earlier.
constexpr Duration kKeptForTelling = std::chrono::seconds(10);
constexpr std::size_t kReplyReadBytes = 64 << 10;

// The time until `deadline` for poll(2) in ms; 0 if it has passed. Rounded up, so that a loop does not spin before the
// deadline.
int PollMs(TimePoint deadline, TimePoint now) {
  if (deadline <= now) return 0;
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(deadline - now).count();
  return static_cast<int>(std::min<std::int64_t>(ms, 60'000));
}

// Waits for `events`. False: the deadline passed.
bool PollUntil(int fd, short events, const Clock& clock, TimePoint deadline) {
  for (;;) {
    pollfd entry{.fd = fd, .events = events, .revents = 0};
    const TimePoint now = clock.Now();
    if (poll(&entry, fd < 0 ? 0 : 1, PollMs(deadline, now)) > 0) return true;
    if (clock.Now() >= deadline) return false;
  }
}

void SetUp(int fd) {
  const auto set = [fd](int level, int name, int value) { setsockopt(fd, level, name, &value, sizeof value); };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  // If the server's host disappears, the client detects this after 20 s, because its data or its probes are not
  // acknowledged.
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 20'000);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

// The failure of one attempt. `final`: another attempt would fail in the same way.
struct TryFailure {
  bool final = false;
  Error error;
  bool no_local_port = false;  // this host had no free local port
};
tl::unexpected<TryFailure> Again(std::string why) {
  return tl::unexpected(TryFailure{.final = false, .error = Error(ErrorCode::kUnreachable, std::move(why))});
}

tl::expected<Fd, TryFailure> ConnectTo(const SocketAddress& address, const Clock& clock, TimePoint deadline) {
  const RawSocketAddress raw = ToRaw(address);
  Fd socket(::socket(raw.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return Again(SystemWords(errno));
  // The system may choose, as this socket's local port, the port of a server that has not started yet. The server can
  // still listen on that port if this socket allows its reuse.
  LetPortBeReused(socket.get());
  if (connect(socket.get(), raw.get(), raw.bytes) != 0) {
    const int failed = errno;
    const std::string no_port = failed == EADDRNOTAVAIL ? WhyNoLocalPort(raw.storage.ss_family) : "";
    if (!no_port.empty()) {
      return tl::unexpected(
          TryFailure{.final = false, .error = Error(ErrorCode::kUnreachable, no_port), .no_local_port = true});
    }
    if (failed != EINPROGRESS && failed != EINTR) return Again(SystemWords(failed));
    if (!PollUntil(socket.get(), POLLOUT, clock, deadline)) {
      return Again(
          "no answer in time: a firewall drops this host's connections to that port, or the store's host is down");
    }
    int error = 0;
    socklen_t bytes = sizeof error;
    getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
    if (error != 0) return Again(SystemWords(error));
  }
  if (IsConnectedToItself(socket.get())) {
    MakeCloseAbortive(socket.get());  // otherwise the closed connection would occupy the server's port
    return Again(SystemWords(ECONNREFUSED));
  }
  SetUp(socket.get());
  return socket;
}

// Performs the handshake, and assumes that its messages fit into the send buffer of a new connection. Bytes after the
// hello reply stay in `unread`.
tl::expected<void, TryFailure> SayHello(int fd, Wire& wire, const TcpStoreClient::Options& options, const Clock& clock,
                                        TimePoint deadline, std::string& unread) {
  using Next = store_protocol::ClientHandshake::Next;
  const auto final = [](const Error& error) { return tl::unexpected(TryFailure{.final = true, .error = error}); };
  auto handshake = store_protocol::ClientHandshake::Begin(options.job, options.token);
  if (!handshake) return final(handshake.error());
  if (!wire.SendAll(fd, AsBytes(handshake->hello()))) {
    return Again(
        fmt::format("the store closed the connection before this process sent its hello: {}", SystemWords(errno)));
  }
  for (;;) {
    std::array<char, 4096> buffer;
    const ssize_t bytes = wire.Receive(fd, std::as_writable_bytes(std::span(buffer)));
    if (bytes < 0 && errno == EAGAIN) {
      if (!PollUntil(fd, POLLIN, clock, deadline))
        return Again("the store accepted the connection, but did not answer this process's hello in time");
      continue;
    }
    if (bytes < 0 && wire.failure()) return final(*wire.failure());
    if (bytes < 0)
      return Again(fmt::format("the store closed the connection after this process's hello: {}", SystemWords(errno)));
    if (bytes == 0) return Again("the store closed the connection after this process's hello");
    unread.append(buffer.data(), static_cast<std::size_t>(bytes));
    auto next = handshake->Take(unread);
    if (next && *next == Next::kSend) {
      if (!wire.SendAll(fd, AsBytes(handshake->proof())))
        return Again(
            fmt::format("the store closed the connection before this process proved that it belongs to the job: {}",
                        SystemWords(errno)));
      next = handshake->Take(unread);
    }
    if (!next && next.error().code() == ErrorCode::kNotReady) return Again(next.error().message());
    if (!next) return final(next.error());
    if (*next == Next::kWelcome) return {};
  }
}

Error At(const std::string& address, const Error& error) {
  return error.With([&](ErrorDetails& details) {
    details.message = fmt::format("store at {}: {}", address, details.message);
    details.address = address;
  });
}

// An address to try, and the host and port from which it was resolved.
struct Target {
  HostPort place;
  SocketAddress address;
};

// Resolves all hosts. A host without an address is added to the error's text and is looked up again in the next round.
template <typename Note>
std::vector<Target> ResolveAll(const TcpStoreClient::Options& options, const Clock& clock, const Note& note) {
  std::vector<Target> targets;
  const auto add = [&](const HostPort& place) {
    const auto addresses = Resolve(place, ResolveFor::kConnect, clock, options.deadline);
    if (!addresses) return note(place.ToString(), addresses.error().message());
    for (const SocketAddress& address : *addresses) targets.push_back({place, address});
  };
  add(options.address);
  for (const HostPort& other : options.others) add(other);
  return targets;
}

// Gives all addresses that Connect tries: "tcp://a:1, tcp://b:1".
std::string Places(const TcpStoreClient::Options& options) {
  std::string places = "tcp://" + options.address.ToString();
  for (const HostPort& other : options.others) places += ", tcp://" + other.ToString();
  return places;
}

}  // namespace

Result<std::unique_ptr<TcpStoreClient>> TcpStoreClient::Connect(const Options& options) {
  if (options.job.size() > store_protocol::kMaxJobBytes) {
    return Fail(ErrorCode::kInvalidArgument, "the job id has {} bytes; at most {} are allowed", options.job.size(),
                store_protocol::kMaxJobBytes);
  }
  const std::shared_ptr<const Clock> clock =
      options.clock != nullptr ? options.clock : std::make_shared<const SteadyClock>();
  const TimePoint started = clock->Now();
  Random random(static_cast<std::uint64_t>(started.time_since_epoch().count()) ^ static_cast<std::uint64_t>(getpid()));
  Duration pause = kFirstPause;
  const std::string places = Places(options);
  std::string no_port;  // the error of the latest attempt that found no free local port
  int tries_without_port = 0;
  for (int tries = 1;; ++tries) {
    std::string failures;  // errors of this round, one for each address
    bool lacks_port = false;
    const auto note = [&](const std::string& address, const std::string& why) {
      failures += fmt::format("{}{}: {}", failures.empty() ? "" : "; ", address, why);
    };
    std::optional<Error> final;
    const std::vector<Target> targets = ResolveAll(options, *clock, note);
    for (std::size_t i = 0; i < targets.size(); ++i) {
      const auto& [place, address] = targets[i];
      const bool last_hope = i + 1 == targets.size() && !options.expect_foreign_servers && !final;
      const TimePoint until =
          last_hope ? options.deadline : std::min(options.deadline, clock->Now() + kConnectPatience);
      auto socket = ConnectTo(address, *clock, until);
      std::string unread;
      Wire wire;
      if (socket && options.tls) {
        RONDO_ASSIGN(auto session, TlsSession::Make(options.tls, TlsSession::Role::kClient, address.ToString()));
        wire = Wire(std::move(session));
      }
      const auto hello = socket ? SayHello(socket->get(), wire, options, *clock, until, unread)
                                : tl::expected<void, TryFailure>(tl::unexpected(socket.error()));
      if (hello) {
        Fd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        if (!wake)
          return Fail(ErrorCode::kResource, "the store's client could not create an eventfd: {}", SystemWords(errno));
        return std::unique_ptr<TcpStoreClient>(new TcpStoreClient(options, place, clock, *std::move(socket),
                                                                  std::move(wake), std::move(wire), std::move(unread)));
      }
      note(address.ToString(), hello.error().error.message());
      if (hello.error().no_local_port) {
        lacks_port = true;
        no_port = hello.error().error.message();
      }
      if (hello.error().final && !options.expect_foreign_servers && !final) {
        final = At(address.ToString(), hello.error().error);
      }
    }
    if (final) return tl::unexpected(std::move(*final));
    tries_without_port += lacks_port;
    // Attempts in earlier rounds found no free local port, but in this round no attempt failed for that reason. The
    // error reports the earlier failures, too.
    if (!lacks_port && tries_without_port > 0)
      failures += fmt::format("; {} earlier tries failed for another reason: {}", tries_without_port, no_port);
    // The pauses are random, so that a thousand clients do not retry at the same time.
    const Duration jittered = pause / 2 + Duration(random.Below(static_cast<std::uint64_t>(pause.count())));
    const TimePoint end =
        lacks_port ? options.deadline - std::min((options.deadline - started) / 2, kKeptForTelling) : options.deadline;
    if (clock->Now() + jittered >= end) {
      ErrorDetails details;
      details.code = lacks_port ? ErrorCode::kResource : ErrorCode::kUnreachable;
      details.address = options.address.ToString();
      details.message = fmt::format("no store at {} within {:.1f} s ({} tries): {}", places,
                                    std::chrono::duration<double>(end - started).count(), tries, failures);
      return tl::unexpected(Error(std::move(details)));
    }
    if (tries == 1) Log(options.logger, LogLevel::kDebug, "there is no store at {} yet: {}", places, failures);
    PollUntil(-1, 0, *clock, clock->Now() + jittered);
    pause = std::min(pause * 2, kLongestPause);
  }
}

TcpStoreClient::TcpStoreClient(const Options& options, const HostPort& place, std::shared_ptr<const Clock> clock,
                               Fd socket, Fd wake, Wire wire, std::string unread)
    : RemoteStore("tcp://" + place.ToString()),
      answer_grace_(options.answer_grace),
      clock_(std::move(clock)),
      socket_(std::move(socket)),
      wake_(std::move(wake)),
      wire_(std::move(wire)),
      unread_(std::move(unread)) {}

// ---- one connection for all threads ----

Result<std::string> TcpStoreClient::Ask(const Encoded& encoded, TimePoint deadline, const Asked& asked) {
  std::unique_lock lock(mutex_);
  if (lost_) return tl::unexpected(*lost_);
  if (unsent_.size() > store_protocol::kMaxFrameBytes) {
    return Fail(ErrorCode::kStoreTimeout, "store {} has not yet read {} bytes of earlier calls", Describe(),
                unsent_.size());
  }
  const std::uint64_t id = ++last_id_;
  Call call;
  struct Forget {
    ~Forget() {
      client.calls_.erase(id);
      client.PassReading();
    }
    TcpStoreClient& client;
    const std::uint64_t id;
  } const forget{*this, id};  // erases the call on every return
  calls_.emplace(id, &call);
  Send(encoded(id));
  Await(lock, call, deadline);
  if (!call.answer && asked.abandon) {
    // Asks the server to end the Wait, because only the server has the exact list of missing keys.
    Send(store_protocol::EncodeAbandon(id));
    Await(lock, call, clock_->Now() + answer_grace_);
  }
  if (call.answer) return std::move(*call.answer);
  return tl::unexpected(Unanswered(asked));
}

void TcpStoreClient::Await(std::unique_lock<std::mutex>& lock, Call& call, TimePoint deadline) {
  while (!call.answer) {
    const TimePoint now = clock_->Now();
    if (now >= deadline) return;
    if (someone_reads_) {
      call.woken.wait_for(lock, AtMostAnHour(deadline, now));
      continue;
    }
    someone_reads_ = true;
    std::array<pollfd, 2> entries{
        pollfd{.fd = socket_.get(), .events = static_cast<short>(Unsent() ? POLLIN | POLLOUT : POLLIN), .revents = 0},
        pollfd{.fd = wake_.get(), .events = POLLIN, .revents = 0},
    };
    lock.unlock();
    poll(entries.data(), entries.size(), PollMs(deadline, now));
    lock.lock();
    someone_reads_ = false;
    std::uint64_t wakes = 0;
    [[maybe_unused]] const ssize_t drained = read(wake_.get(), &wakes, sizeof wakes);
    Flush();
    ReadAnswers();
  }
}

void TcpStoreClient::PassReading() {
  if (!someone_reads_ && !calls_.empty()) calls_.begin()->second->woken.notify_one();
}

void TcpStoreClient::Send(std::string frame) {
  if (unsent_.empty()) {
    unsent_ = std::move(frame);
  } else {
    unsent_ += frame;
  }
  Flush();
  if (Unsent() && someone_reads_) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t woken = write(wake_.get(), &one, sizeof one);
  }
}

void TcpStoreClient::Flush() {
  std::size_t done = 0;
  while (done < unsent_.size()) {
    const std::array<Bytes, 1> rest{AsBytes(unsent_).subspan(done)};
    const ssize_t sent = wire_.Send(socket_.get(), rest);
    if (sent > 0) {
      done += static_cast<std::size_t>(sent);
    } else if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      break;
    } else {
      return Lose(SystemWords(errno));
    }
  }
  unsent_.erase(0, done);
  wire_.Flush(socket_.get());
}

void TcpStoreClient::ReadAnswers() {
  std::array<char, kReplyReadBytes> buffer;
  for (;;) {
    if (lost_) return;
    const ssize_t bytes = wire_.Receive(socket_.get(), std::as_writable_bytes(std::span(buffer)));
    if (bytes < 0 && wire_.failure()) return Lose(wire_.failure()->message());
    if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (bytes < 0) return Lose(SystemWords(errno));
    if (bytes == 0) return Lose("the store closed the connection");
    unread_.append(buffer.data(), static_cast<std::size_t>(bytes));
    HandOut();
  }
}

void TcpStoreClient::HandOut() {
  std::size_t done = 0;
  for (;;) {
    const auto frame = store_protocol::FirstFrame(std::string_view(unread_).substr(done));
    if (frame && !frame->has_value()) break;
    auto reply = frame ? store_protocol::DecodeReply(**frame) : tl::unexpected(frame.error());
    if (!reply) return Lose(reply.error().message());
    done += store_protocol::kLengthBytes + (*frame)->size();
    const auto found = calls_.find(reply->id);
    if (found == calls_.end()) continue;  // the caller has returned at its deadline
    found->second->answer = PayloadOf(std::move(*reply));
    found->second->woken.notify_one();
  }
  unread_.erase(0, done);
}

void TcpStoreClient::Lose(const std::string& why) {
  if (lost_) return;
  lost_ = Lost(why);
  unsent_.clear();
  for (const auto& [id, call] : calls_) {
    if (!call->answer) call->answer = tl::unexpected(*lost_);
    call->woken.notify_one();
  }
}

}  // namespace rondo
