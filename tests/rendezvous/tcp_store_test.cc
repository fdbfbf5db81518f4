// Tests the TCP store over real sockets: addresses, foreign clients, limits, and the death of a client or server.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/net/resolve.h"
#include "rendezvous/tcp_store_protocol.h"
#include "tests/rendezvous/stores.h"
#include "tests/support/fault_row.h"
#include "tests/support/threads.h"

namespace rondo {
namespace tcp_store_test {

using Keys = std::vector<std::string>;

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A socket that sends any bytes to a server.
class RawClient {
 public:
  explicit RawClient(const TcpStoreServer& server) {
    const SteadyClock clock;
    const auto addresses = Resolve(*ParseHostPort(server.address()), ResolveFor::kConnect, clock, Soon());
    REQUIRE(addresses);
    const RawSocketAddress address = ToRaw(addresses->front());
    fd_ = socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(fd_ >= 0);
    REQUIRE(connect(fd_, address.get(), address.bytes) == 0);
  }
  RawClient(RawClient&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~RawClient() {
    if (fd_ >= 0) close(fd_);
  }
  bool Say(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  // Returns what the server sends until it closes the connection, but at most `bytes` bytes.
  std::string Receive(std::size_t bytes = ~std::size_t{0}) {
    std::string all;
    char buffer[65536];
    while (all.size() < bytes) {
      const ssize_t got = recv(fd_, buffer, std::min(sizeof buffer, bytes - all.size()), 0);
      if (got <= 0) break;
      all.append(buffer, static_cast<std::size_t>(got));
    }
    return all;
  }

 private:
  int fd_ = -1;
};

void CheckWorks(const TcpStoreServer& server) {
  const auto client = ClientOf(server);
  REQUIRE(client->Set("works", "yes", Soon()));
  CHECK(*client->Get("works", Soon()) == "yes");
}

// ---- addresses ----

TEST_CASE("Port 0 binds a free port and says which") {
  const auto server = StartServer();
  CHECK(server->port() != 0);
  CHECK(server->Describe() == "tcp://127.0.0.1:" + std::to_string(server->port()));
  CheckWorks(*server);
}

TEST_CASE("A server without a host serves IPv4 and IPv6") {
  TcpStoreServer::Options options;
  options.deadline = Soon();
  const auto server = TcpStoreServer::Start(options);
  REQUIRE(server);
  for (const std::string host : {"127.0.0.1", "::1", "localhost", ""}) {
    CAPTURE(host);
    TcpStoreClient::Options client;
    client.address = {.host = host, .port = (*server)->port()};
    client.deadline = Soon();
    const auto connected = TcpStoreClient::Connect(client);
    REQUIRE_MESSAGE(connected.has_value(), connected.error().ToString());
    CHECK((*connected)->Add("counter", 1, Soon()));
  }
}

TEST_CASE("A taken port is an error at once that names the address") {
  const auto first = StartServer();
  TcpStoreServer::Options options;
  options.host = "127.0.0.1";
  options.port = first->port();
  options.deadline = Soon();
  const TimePoint before = SteadyClock().Now();
  const auto second = TcpStoreServer::Start(options);
  REQUIRE(!second);
  CHECK(second.error().code() == ErrorCode::kAddressInUse);
  StateFault(25, 1, second.error(), {.took = SteadyClock().Now() - before});
  CHECK(Has(second.error().message(), first->address()));
  CHECK(SteadyClock().Now() - before < std::chrono::seconds(10));
}

TEST_CASE("A port is free again as soon as its server has gone, connections or not") {
  auto server = StartServer();
  const auto client = ClientOf(*server);
  TcpStoreServer::Options options;
  options.port = server->port();
  server.reset();
  CheckWorks(*StartServer(std::move(options)));
  StateFault(25, 1, "correct");
}

TEST_CASE("An address of another host cannot be served") {
  TcpStoreServer::Options options;
  options.host = "192.0.2.1";  // an address for documentation (RFC 5737)
  options.deadline = Soon();
  const auto server = TcpStoreServer::Start(options);
  REQUIRE(!server);
  CHECK(server.error().code() == ErrorCode::kInvalidArgument);
  CHECK(Has(server.error().message(), "192.0.2.1"));
}

TEST_CASE("A bound socket can be handed in, listening or not") {
  for (const bool listening : {false, true}) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in loopback{};
    loopback.sin_family = AF_INET;
    loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(bind(fd, reinterpret_cast<sockaddr*>(&loopback), sizeof loopback) == 0);
    if (listening) REQUIRE(listen(fd, 1) == 0);
    TcpStoreServer::Options options;
    options.listen_fd = fd;
    CheckWorks(*StartServer(std::move(options)));
    CHECK(fcntl(fd, F_GETFD) == -1);  // the server owned the descriptor and has closed it
  }
}

TEST_CASE("A descriptor that is no TCP socket is refused") {
  TcpStoreServer::Options options;
  options.listen_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const auto server = TcpStoreServer::Start(options);
  REQUIRE(!server);
  CHECK(server.error().code() == ErrorCode::kInvalidArgument);
}

// ---- connecting ----

TEST_CASE("No server: the error lists every address and why, at the deadline") {
  const HeldPort held;
  TcpStoreClient::Options options;
  options.address = {.host = "localhost", .port = held.port()};
  options.deadline = InMs(1000);
  const TimePoint before = SteadyClock().Now();
  const auto client = TcpStoreClient::Connect(options);
  const Duration took = SteadyClock().Now() - before;
  REQUIRE(!client);
  CHECK(client.error().code() == ErrorCode::kUnreachable);
  CHECK(Has(client.error().message(), "127.0.0.1:" + std::to_string(held.port()) + ": Connection refused"));
  CHECK(Has(client.error().message(), "tries"));
  CHECK(took < std::chrono::seconds(10));
}

TEST_CASE("A host that does not exist is named") {
  TcpStoreClient::Options options;
  options.address = {.host = "no-such-host.invalid", .port = 1};
  options.deadline = InMs(200);
  const TimePoint before = SteadyClock().Now();
  const auto client = TcpStoreClient::Connect(options);
  REQUIRE(!client);
  CHECK(client.error().code() == ErrorCode::kUnreachable);
  CHECK(Has(client.error().message(), "no-such-host.invalid"));
  CHECK(SteadyClock().Now() - before < std::chrono::seconds(10));
}

TEST_CASE("A client that comes before its server finds it when it comes") {
  const HeldPort held;
  std::thread early([&held] {
    TcpStoreClient::Options options;
    options.address = {.host = "127.0.0.1", .port = held.port()};
    options.deadline = Soon();
    RecordingLogger logger;
    options.logger = &logger;
    const auto client = TcpStoreClient::Connect(options);
    REQUIRE_MESSAGE(client.has_value(), client.error().ToString());
    CHECK((*client)->Set("early", "", Soon()));
  });
  TcpStoreServer::Options options;
  options.port = held.port();
  const auto server = StartServer(std::move(options));
  CHECK(ClientOf(*server)->WaitFor("early", Soon()));
  early.join();
}

TEST_CASE("Something else that listens there is named as such, at once") {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in loopback{};
  loopback.sin_family = AF_INET;
  loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(bind(listener, reinterpret_cast<sockaddr*>(&loopback), sizeof loopback) == 0);
  REQUIRE(listen(listener, 4) == 0);
  std::thread http([listener] {
    const int fd = accept(listener, nullptr, nullptr);
    const std::string_view answer = "HTTP/1.1 400 Bad Request\r\n\r\n";
    CHECK(send(fd, answer.data(), answer.size(), MSG_NOSIGNAL) > 0);
    char buffer[64];
    while (recv(fd, buffer, sizeof buffer, 0) > 0) {
    }
    close(fd);
  });
  TcpStoreClient::Options options;
  options.address = *ParseHostPort(LocalSocketAddress(listener).ToString());
  options.deadline = Soon();
  const auto client = TcpStoreClient::Connect(options);
  http.join();
  close(listener);
  REQUIRE(!client);
  CHECK(client.error().code() == ErrorCode::kProtocol);
  CHECK(Has(client.error().message(), "HTTP/1.1 400"));
  CHECK(Has(client.error().message(), options.address.ToString()));
}

TEST_CASE("Processes of another job are refused with both names; a server without a job takes all") {
  TcpStoreServer::Options options;
  options.job = "mine";
  const auto server = StartServer(std::move(options));
  const auto refused = ConnectTo(*server, "yours");
  REQUIRE(!refused);
  CHECK(refused.error().code() == ErrorCode::kVersionMismatch);
  CHECK(Has(refused.error().message(), "'mine'"));
  CHECK(Has(refused.error().message(), "'yours'"));
  CHECK(ConnectTo(*server, "mine"));
  CHECK(ConnectTo(*StartServer(), "any-job"));
  CHECK(Reaches(*server, [](const auto& stats) { return stats.refused == 1; }));
}

TEST_CASE("A client beyond the limit is refused with the limit, and has room when another leaves") {
  TcpStoreServer::Options options;
  options.limits.service.max_clients = 1;
  const auto server = StartServer(std::move(options));
  {
    const auto first = ClientOf(*server);
    const auto second = ConnectTo(*server);
    REQUIRE(!second);
    CHECK(second.error().code() == ErrorCode::kResource);
    CHECK(Has(second.error().message(), "1 clients"));
  }
  REQUIRE(server->WaitUntilNoClients(Soon()));
  CHECK(ConnectTo(*server));
}

// ---- foreign clients ----

TEST_CASE("Foreign clients are dropped without an answer of ours and counted, while members are served undisturbed") {
  RecordingLogger logger;
  TcpStoreServer::Options options;
  options.logger = &logger;
  options.limits.hello_timeout_ms = 100;
  const auto server = StartServer(std::move(options));
  const auto member = ClientOf(*server);
  std::thread waiting([&] { CHECK(*member->WaitFor("key", Soon()) == "value"); });

  const std::vector<std::string> words{
      "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
      std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11),
      std::string(100'000, 'x'),
      "",                                                    // no bytes
      "RONDO",                                               // the beginning of a hello, then no more bytes
      std::string("RONDO\0KV\1\0\0\0\xff\xff\xff\xff", 16),  // a hello with huge lengths
  };
  for (const std::string& word : words) {
    RawClient foreign_client(*server);
    foreign_client.Say(word);
    // Receive returns when the server has closed the connection. Only a TLS client gets an answer.
    const std::string not_spoken = ToText(kTlsNotSpoken);
    CHECK(foreign_client.Receive() == (word.starts_with('\x16') ? not_spoken : ""));
  }
  { const RawClient scanner(*server); }  // connects and closes
  CHECK(Reaches(*server, [&](const auto& stats) { return stats.accepted == words.size() + 2; }));
  CHECK(Reaches(*server, [&](const auto& stats) { return stats.unknown == words.size() + 1; }));
  CHECK(server->stats().RejectedSummary() == std::to_string(words.size() + 1) + " unknown clients dropped");
  CHECK(server->stats().clients == 1);
  CHECK(ClientOf(*server)->Set("key", "value", Soon()));
  waiting.join();
  const auto lines = logger.lines();
  CHECK(!lines.empty());
  CHECK(lines.size() <= words.size());
  StateFault(23, server->stats().unknown, "correct");
  CHECK(Has(lines.front(), "GET / HTTP/1.1"));
}

TEST_CASE("A huge length after a right hello ends that connection only") {
  const auto server = StartServer();
  RawClient liar(*server);
  liar.Say(store_protocol::Encode(store_protocol::Hello{}));
  CHECK(liar.Receive(14) == store_protocol::Encode(store_protocol::HelloReply{}));
  liar.Say(std::string("\xff\xff\xff\xff", 4));
  CHECK(liar.Receive().empty());
  CHECK(Reaches(*server, [](const auto& stats) { return stats.broken == 1; }));
  CheckWorks(*server);
  StateFault(23, server->stats().broken, "correct");
}

TEST_CASE("A crowd of silent foreign clients pushes out its own, not the members") {
  TcpStoreServer::Options options;
  options.limits.max_before_hello = 8;
  options.limits.hello_timeout_ms = 60'000;
  const auto server = StartServer(std::move(options));
  const auto member = ClientOf(*server);
  std::vector<RawClient> crowd;
  for (int i = 0; i < 100; ++i) crowd.emplace_back(*server);
  CHECK(Reaches(*server, [](const auto& stats) { return stats.unknown == 92; }));
  CheckWorks(*server);
  CHECK(member->Set("still", "here", Soon()));
}

TEST_CASE("A crowd of silent foreign clients takes a quarter of the process's descriptors, not all of them") {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit few = before;
  few.rlim_cur = 256;
  setrlimit(RLIMIT_NOFILE, &few);
  {
    TcpStoreServer::Options options;  // max_before_hello remains 1024
    options.limits.hello_timeout_ms = 60'000;
    const auto server = StartServer(std::move(options));
    std::vector<RawClient> crowd;
    for (int i = 0; i < 120; ++i) crowd.emplace_back(*server);
    CHECK(Reaches(*server, [](const auto& stats) { return stats.accepted == 120 && stats.unknown == 120 - 256 / 4; }));
    CHECK(server->stats().accept_pauses == 0);
    CheckWorks(*server);
    StateFault(23, server->stats().unknown, "correct");
  }
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST_CASE("Out of descriptors the server pauses accepting, does not spin, and goes on when there are some") {
  TcpStoreServer::Options options;
  options.limits.accept_pause_ms = 20;
  const auto server = StartServer(std::move(options));
  const auto member = ClientOf(*server);

  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  // The client's own socket takes the last descriptor, so the server has none for its end.
  RawClient caller = [&] {
    const int probe = dup(0);
    close(probe);
    rlimit few = before;
    few.rlim_cur = static_cast<rlim_t>(probe) + 1;
    setrlimit(RLIMIT_NOFILE, &few);
    return RawClient(*server);
  }();
  const TimePoint since = SteadyClock().Now();
  CHECK(Reaches(*server, [](const auto& stats) { return stats.accept_pauses >= 3; }));
  CHECK(member->Set("member", "undisturbed", Soon()));
  const auto pauses = server->stats().accept_pauses;
  CHECK(pauses <= static_cast<std::uint64_t>((SteadyClock().Now() - since) / std::chrono::milliseconds(20)) + 3);
  setrlimit(RLIMIT_NOFILE, &before);
  caller.Say(store_protocol::Encode(store_protocol::Hello{}));
  CHECK(caller.Receive(14) == store_protocol::Encode(store_protocol::HelloReply{}));
  CheckWorks(*server);
  StateFault(26, server->stats().accept_pauses, "correct");
}

TEST_CASE("A client for which the server has no descriptor gets that error, and is served when there is one") {
  TcpStoreServer::Options options;
  options.limits.accept_pause_ms = 20;
  const auto server = StartServer(std::move(options));
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  RawClient caller = [&] {
    const int probe = dup(0);
    close(probe);
    rlimit few = before;
    few.rlim_cur = static_cast<rlim_t>(probe) + 1;
    setrlimit(RLIMIT_NOFILE, &few);
    return RawClient(*server);
  }();
  caller.Say(store_protocol::Encode(store_protocol::Hello{}));
  const std::string received = caller.Receive();
  setrlimit(RLIMIT_NOFILE, &before);
  CHECK(received.find("the store cannot accept connections: Too many open files: it takes 1 more file descriptor") !=
        std::string::npos);
  CHECK(received.find("raise the limit (ulimit -n)") != std::string::npos);
  CheckWorks(*server);
}

TEST_CASE("A client that asks for much and reads nothing delays no other client and is bounded") {
  const auto server = StartServer();
  const auto member = ClientOf(*server);
  REQUIRE(member->Set("large", std::string(kMaxValueBytes, 'v'), Soon()));
  RawClient glutton(*server);
  glutton.Say(store_protocol::Encode(store_protocol::Hello{}));
  std::string requests;
  constexpr std::uint64_t kRequests = 40;
  for (std::uint64_t id = 1; id <= kRequests; ++id) requests += store_protocol::EncodeGet(id, Keys{"large"});
  glutton.Say(requests);
  for (int i = 0; i < 100; ++i) REQUIRE(member->Add("counter", 1, Soon()));
  // When the client finally reads, it gets all answers.
  const std::size_t answer_bytes =
      store_protocol::kLengthBytes + store_protocol::kFrameHeadBytes + 4 + 5 + kMaxValueBytes;
  CHECK(glutton.Receive(14 + kRequests * answer_bytes).size() == 14 + kRequests * answer_bytes);
}

// ---- the job's token ----

std::unique_ptr<TcpStoreServer> ServerWithToken(std::string_view token) {
  TcpStoreServer::Options options;
  if (!token.empty()) options.token = TokenOf(token);
  return StartServer(std::move(options));
}

TEST_CASE("A client with the server's token uses the store; one with another token, or none, gets an error at once") {
  struct Case {
    const char* server;
    const char* client;
    const char* words;
  };
  for (const Case& each :
       {Case{"secret", "Secret", "this process (RONDO_TOKEN) and the store have different job tokens"},
        Case{"secret", "", "the store has a job token, and this process has none (RONDO_TOKEN)"},
        Case{"", "secret", "this process has a job token (RONDO_TOKEN), and the store has none"}}) {
    CAPTURE(each.words);
    const auto server = ServerWithToken(each.server);
    const TimePoint before = SteadyClock().Now();
    const auto client =
        ConnectTo(*server, "", Soon(), std::string_view(each.client).empty() ? nullptr : TokenOf(each.client));
    REQUIRE_FALSE(client);
    CHECK(client.error().code() == ErrorCode::kAuth);
    CHECK_MESSAGE(Has(client.error().message(), each.words), client.error().ToString());
    CHECK(client.error().details().address == server->address());
    CHECK(SteadyClock().Now() - before < std::chrono::seconds(20));  // well before the deadline
    CHECK(Reaches(*server, [](const auto& stats) { return stats.auth_failed == 1; }));
    CHECK(Reaches(*server, [](const auto& stats) { return stats.clients == 0; }));
  }
  const auto server = ServerWithToken("secret");
  const auto client = ConnectTo(*server, "", Soon(), TokenOf("secret"));
  REQUIRE_MESSAGE(client, client.error().ToString());
  CHECK((*client)->Set("key", "value", Soon()));
  CHECK(*(*client)->Get("key", Soon()) == "value");
  CHECK(server->stats().auth_failed == 0);
}

TEST_CASE("Requests that come before the proof get no answer, and change nothing") {
  const auto server = ServerWithToken("secret");
  const auto member = ConnectTo(*server, "", Soon(), TokenOf("secret"));
  REQUIRE(member);
  const std::vector<KeyValue> entries{{"key", "foreign client's"}};
  RawClient foreign_client(*server);
  foreign_client.Say(store_protocol::Encode(store_protocol::Hello{.nonce = std::string(16, 'n')}) +
                     store_protocol::EncodeSet(1, entries) + store_protocol::EncodeGet(2, Keys{"key"}));
  // The server interprets the beginning of the requests as a proof, and the check of this proof fails.
  const std::string received = foreign_client.Receive();
  std::string rest = received;
  const auto challenge = store_protocol::TakeHelloReply(rest);
  REQUIRE((challenge && *challenge));
  CHECK((*challenge)->challenge.has_value());
  const auto refusal = store_protocol::TakeHelloReply(rest);
  REQUIRE((refusal && *refusal));
  REQUIRE((*refusal)->refused.has_value());
  CHECK((*refusal)->refused->code() == ErrorCode::kAuth);
  CHECK_FALSE((*refusal)->proof.has_value());
  CHECK(rest.empty());
  CHECK(*(*member)->Add("key", 1, Soon()) == 1);  // the key was absent
}

TEST_CASE("Who is challenged and says nothing goes when the patience for hellos ends") {
  TcpStoreServer::Options options;
  options.token = TokenOf("secret");
  options.limits.hello_timeout_ms = 1000;
  const auto server = StartServer(std::move(options));
  RawClient silent(*server);
  silent.Say(store_protocol::Encode(store_protocol::Hello{.nonce = std::string(16, 'n')}));
  std::string received = silent.Receive();  // until the server closes
  const auto challenge = store_protocol::TakeHelloReply(received);
  REQUIRE((challenge && *challenge));
  CHECK((*challenge)->challenge.has_value());
  CHECK(received.empty());
  CHECK(Reaches(*server, [](const auto& stats) { return stats.unknown == 1; }));
}

// ---- the death of a client or server ----

TEST_CASE("When the server goes, blocked waiters and later calls fail at once, with the address") {
  auto server = StartServer();
  const std::string address = server->address();
  const auto client = ClientOf(*server);
  Threads waiters(3, [&](int i) {
    CHECK(client->Add("waiting", 1, Soon()));
    const auto value = client->WaitFor("never" + std::to_string(i), Soon());
    REQUIRE(!value);
    CHECK(value.error().code() == ErrorCode::kStoreLost);
    CHECK(Has(value.error().message(), address));
  });
  while (*client->Get("waiting", Soon()) != "3") std::this_thread::yield();
  const TimePoint before = SteadyClock().Now();
  server.reset();
  waiters.Join();
  CHECK(SteadyClock().Now() - before < std::chrono::seconds(10));
  CHECK(client->Set("key", "", Soon()).error().code() == ErrorCode::kStoreLost);
  CHECK(client->Get("key", Soon()).error().code() == ErrorCode::kStoreLost);
}

TEST_CASE("A server that has stopped answering costs a call its deadline, not more") {
  // Accepts a connection and answers the hello like a store, then sends nothing more.
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in loopback{};
  loopback.sin_family = AF_INET;
  loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(bind(listener, reinterpret_cast<sockaddr*>(&loopback), sizeof loopback) == 0);
  REQUIRE(listen(listener, 4) == 0);
  std::thread silent([listener] {
    const int fd = accept(listener, nullptr, nullptr);
    const std::string welcome = store_protocol::Encode(store_protocol::HelloReply{});
    CHECK(send(fd, welcome.data(), welcome.size(), MSG_NOSIGNAL) > 0);
    char buffer[4096];
    while (recv(fd, buffer, sizeof buffer, 0) > 0) {
    }
    close(fd);
  });
  {
    TcpStoreClient::Options options;
    options.address = *ParseHostPort(LocalSocketAddress(listener).ToString());
    options.deadline = Soon();
    const auto client = TcpStoreClient::Connect(options);
    REQUIRE(client);
    const TimePoint before = SteadyClock().Now();
    const Status set = (*client)->Set("the_key", "value", InMs(50));
    REQUIRE(!set);
    CHECK(set.error().code() == ErrorCode::kStoreTimeout);
    CHECK(Has(set.error().message(), "the_key"));
    CHECK(Has(set.error().message(), options.address.ToString()));
    const auto waited = (*client)->WaitFor("a_key", InMs(50));
    REQUIRE(!waited);
    CHECK(waited.error().code() == ErrorCode::kStoreTimeout);
    CHECK(SteadyClock().Now() - before < std::chrono::seconds(10));
  }
  silent.join();
  close(listener);
}

TEST_CASE("No socket of the store goes on to a program that this process executes") {
  const auto server = StartServer();
  const auto client = ConnectTo(*server);
  REQUIRE(client);
  REQUIRE((*client)->Set("key", "value", Soon()));
  int sockets = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    // Reads the link's name instead of calling fstat(), because the server's thread may close the socket at the same
    // time, and ThreadSanitizer would report that.
    std::error_code gone;
    const std::string file = std::filesystem::read_symlink(entry.path(), gone).string();
    if (gone || !file.starts_with("socket:") || fd <= STDERR_FILENO) continue;
    ++sockets;
    CHECK((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
  }
  CHECK(sockets >= 3);  // the listener and the two ends of the connection
}

TEST_CASE("The end of time is a deadline like any other") {
  const auto server = StartServer();
  auto client = ConnectTo(*server, "", TimePoint::max());
  REQUIRE(client);
  CHECK(Resolve({.host = "localhost", .port = 1}, ResolveFor::kConnect, SteadyClock(), TimePoint::max()));
  std::thread second([&] { CHECK((*client)->WaitFor("key", TimePoint::max())); });
  std::thread third([&] { CHECK((*client)->WaitFor("key", TimePoint::max())); });
  std::thread leaving([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    CHECK((*client)->Set("key", "value", TimePoint::max()));
    second.join();
    third.join();
    client->reset();
  });
  CHECK(server->WaitUntilNoClients(TimePoint::max()));
  CHECK(server->stats().clients == 0);
  leaving.join();
}

TEST_CASE("The server knows when its last client has gone") {
  const auto server = StartServer();
  CHECK(server->WaitUntilNoClients(InMs(0)));
  auto first = ClientOf(*server);
  auto second = ClientOf(*server);
  CHECK(!server->WaitUntilNoClients(InMs(20)));
  first.reset();
  CHECK(!server->WaitUntilNoClients(InMs(20)));
  std::thread leaving([&] { second.reset(); });
  CHECK(server->WaitUntilNoClients(Soon()));
  leaving.join();
}

}  // namespace tcp_store_test
}  // namespace rondo
