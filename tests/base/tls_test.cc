// Tests TLS with both ends in one thread. The test moves the bytes between the ends: all at once, one by one,
// truncated, or damaged.
#include "base/tls.h"

#include <doctest/doctest.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/tls_files.h"

namespace rondo {
namespace tls_test {

using testing::PskOf;
using testing::TlsFiles;

using Role = TlsSession::Role;

std::shared_ptr<const TlsContext> ContextOf(const TlsOptions& options) {
  auto made = TlsContext::Make(options);
  REQUIRE_MESSAGE(made, made.error().ToString());
  REQUIRE(*made != nullptr);
  return *made;
}

std::unique_ptr<TlsSession> Session(const TlsOptions& options, Role role, std::size_t buffer = kTlsSmallBuffer) {
  auto made = TlsSession::Make(ContextOf(options), role, role == Role::kClient ? "10.0.0.2:1" : "10.0.0.1:1", buffer);
  REQUIRE(made);
  return std::move(*made);
}

// Moves at most `most` bytes from one end to the other, and returns the number of moved bytes.
std::size_t Carry(TlsSession& from, TlsSession& to, std::size_t most) {
  const Bytes front = from.Unsent();
  const MutableBytes room = to.Room();
  const std::size_t bytes = std::min({front.size(), room.size(), most});
  std::copy_n(front.begin(), bytes, room.begin());
  to.Received(bytes);
  from.Sent(bytes);
  return bytes;
}

struct Pair {
  std::unique_ptr<TlsSession> client, server;
  std::optional<Error> client_error, server_error;

  Pair(const TlsOptions& a, const TlsOptions& b, std::size_t buffer = kTlsSmallBuffer)
      : client(Session(a, Role::kClient, buffer)), server(Session(b, Role::kServer, buffer)) {}

  // Continues until no bytes move any more. A side that has failed still sends its alert. A side that has finished its
  // handshake still reads, because the other side may send an alert.
  void Shake(std::size_t piece = SIZE_MAX) {
    const auto step = [](TlsSession& session, std::optional<Error>& error) {
      if (error) return;
      const auto shaken = session.Handshake();
      if (!shaken) error = shaken.error();
      if (!shaken || !*shaken) return;
      std::byte none;
      if (const auto read = session.Read({&none, 1}); !read) error = read.error();
    };
    for (bool moved = true; moved;) {
      step(*client, client_error);
      moved = Carry(*client, *server, piece) != 0;
      step(*server, server_error);
      moved = Carry(*server, *client, piece) != 0 || moved;
    }
    step(*client, client_error);
  }
  bool established() const { return client->established() && server->established() && !client_error && !server_error; }
};

std::string Everything(TlsSession& session) {
  std::string text;
  std::array<std::byte, 1000> some;
  for (auto got = session.Read(some); got && *got != 0; got = session.Read(some))
    text += ToText(Bytes(some).first(*got));
  return text;
}

// Sends all of `text`, in any number of records, and returns the received text.
std::string Through(TlsSession& from, TlsSession& to, const std::string& text, std::size_t piece = SIZE_MAX) {
  std::string arrived;
  std::size_t done = 0;
  while (arrived.size() < text.size()) {
    const std::array<Bytes, 1> rest{AsBytes(text).subspan(done)};
    const auto taken = from.Write(rest);
    REQUIRE(taken);
    done += *taken;
    while (Carry(from, to, piece) != 0) arrived += Everything(to);
  }
  return arrived;
}

void RequireAuth(const std::optional<Error>& error, std::string_view word) {
  REQUIRE(error);
  CAPTURE(error->ToString());
  CHECK(error->code() == ErrorCode::kAuth);
  CHECK(error->message().find(word) != std::string::npos);
  CHECK(error->details().address.starts_with("10.0.0."));
}

TEST_CASE("tls: two that hold the same key find each other, and bytes arrive as they were sent") {
  Pair pair(PskOf('k'), PskOf('k'));
  pair.Shake();
  REQUIRE(pair.established());
  CHECK(pair.client->Describe() == "TLS 1.3, TLS_AES_128_GCM_SHA256, psk");
  std::string text(100'000, 'a');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7);
  CHECK(Through(*pair.client, *pair.server, text) == text);
  CHECK(Through(*pair.server, *pair.client, text) == text);
}

TEST_CASE("tls: what crosses the wire is not what was said") {
  Pair pair(PskOf('k'), PskOf('k'));
  pair.Shake();
  const std::string secret = "the gradient of the loss";
  const std::array<Bytes, 1> pieces{AsBytes(secret)};
  REQUIRE(pair.client->Write(pieces) == secret.size());
  CHECK(ToText(pair.client->Unsent()).find("gradient") == std::string::npos);
}

TEST_CASE("tls: byte by byte all is the same") {
  TlsFiles files;
  for (const TlsOptions& options : {PskOf('k'), files.Member("ca", "rank")}) {
    Pair pair(options, options);
    pair.Shake(1);
    REQUIRE(pair.established());
    CHECK(Through(*pair.client, *pair.server, "in the end all bytes are equal", 1) == "in the end all bytes are equal");
  }
}

TEST_CASE("tls: small pieces share a record, and a buffer's room bounds what is taken") {
  Pair pair(PskOf('k'), PskOf('k'));
  pair.Shake();
  const std::string header(64, 'h');
  const std::string payload(100'000, 'p');
  const std::array<Bytes, 2> pieces{AsBytes(header), AsBytes(payload)};
  CHECK(pair.client->Write(pieces) == kTlsRecordBytes);
  CHECK(pair.client->Write(pieces) == 0);
}

TEST_CASE("tls: another key is refused, and both sides say so") {
  Pair pair(PskOf('k'), PskOf('j'));
  pair.Shake();
  RequireAuth(pair.server_error, "another pre-shared key");
  RequireAuth(pair.client_error, "it refused the pre-shared key");
}

TEST_CASE("tls: another identity of a key is refused") {
  TlsOptions other = PskOf('k');
  other.psk_identity = "another-job";
  Pair pair(other, PskOf('k'));
  pair.Shake();
  RequireAuth(pair.server_error, "identity differs from this process's");
  RequireAuth(pair.client_error, "refused the pre-shared key");
}

TEST_CASE("tls: two certificates of one authority find each other") {
  TlsFiles files;
  Pair pair(files.Member("ca", "rank0"), files.Member("ca", "rank1"));
  pair.Shake();
  REQUIRE(pair.established());
  CHECK(Through(*pair.server, *pair.client, "hello") == "hello");
  CHECK(pair.client->Describe().ends_with("certificates"));
}

TEST_CASE("tls: an expired certificate is refused on either side, with its date") {
  TlsFiles files;
  const TlsOptions fresh = files.Member("ca", "fresh");
  const TlsOptions stale =
      files.Member("ca", "stale", {.from = -std::chrono::hours(48), .until = -std::chrono::hours(24)});
  SUBCASE("the server's") {
    Pair pair(fresh, stale);
    pair.Shake();
    RequireAuth(pair.client_error, "certificate '/CN=stale': it expired on ");
    CHECK(pair.client_error->message().find(" GMT") != std::string::npos);
    RequireAuth(pair.server_error, "refused this process's certificate: it has expired");
  }
  SUBCASE("the client's") {
    Pair pair(stale, fresh);
    pair.Shake();
    RequireAuth(pair.server_error, "certificate '/CN=stale': it expired on ");
    RequireAuth(pair.client_error, "refused this process's certificate: it has expired");
    CHECK(pair.client_error->message().find("'/CN=stale', valid until ") != std::string::npos);
  }
}

TEST_CASE("tls: a certificate that is not valid yet is refused") {
  TlsFiles files;
  Pair pair(files.Member("ca", "a"),
            files.Member("ca", "early", {.from = std::chrono::hours(5), .until = std::chrono::hours(9)}));
  pair.Shake();
  RequireAuth(pair.client_error, "valid only from ");
}

TEST_CASE("tls: a certificate of another authority is refused") {
  TlsFiles files;
  const TlsOptions ours = files.Member("ca", "ours");
  const TlsOptions theirs = files.Member("another", "theirs");
  Pair pair(ours, theirs);
  pair.Shake();
  RequireAuth(pair.client_error, "not signed by the job's CA");
  RequireAuth(pair.server_error, "not signed by a CA that the other side knows");
}

TEST_CASE("tls: who shows no certificate is refused") {
  TlsFiles files;
  const TlsOptions ours = files.Member("ca", "ours");
  // Our options cannot omit the certificate, so this client uses OpenSSL directly.
  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  SSL* const ssl = SSL_new(context);
  BIO* near = nullptr;
  BIO* wire = nullptr;
  REQUIRE(BIO_new_bio_pair(&near, 0, &wire, 0) == 1);
  SSL_set_bio(ssl, near, near);
  SSL_set_connect_state(ssl);
  const auto server = Session(ours, Role::kServer);
  std::optional<Error> error;
  for (int i = 0; i < 10 && !error; ++i) {
    SSL_do_handshake(ssl);
    const MutableBytes room = server->Room();
    const int sent = BIO_read(wire, room.data(), static_cast<int>(room.size()));
    if (sent > 0) server->Received(static_cast<std::size_t>(sent));
    if (const auto shaken = server->Handshake(); !shaken) error = shaken.error();
    for (Bytes front = server->Unsent(); !front.empty(); front = server->Unsent()) {
      const int got = BIO_write(wire, front.data(), static_cast<int>(front.size()));
      REQUIRE(got > 0);
      server->Sent(static_cast<std::size_t>(got));
    }
  }
  RequireAuth(error, "it presented no certificate");
  SSL_free(ssl);
  BIO_free(wire);
  SSL_CTX_free(context);
}

TEST_CASE("tls: who offers TLS 1.2 at most is refused") {
  const auto server = Session(PskOf('k'), Role::kServer);
  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION);
  SSL* const ssl = SSL_new(context);
  BIO* near = nullptr;
  BIO* wire = nullptr;
  REQUIRE(BIO_new_bio_pair(&near, 0, &wire, 0) == 1);
  SSL_set_bio(ssl, near, near);
  SSL_set_connect_state(ssl);
  SSL_do_handshake(ssl);
  const MutableBytes room = server->Room();
  const int sent = BIO_read(wire, room.data(), static_cast<int>(room.size()));
  REQUIRE(sent > 0);
  server->Received(static_cast<std::size_t>(sent));
  const auto shaken = server->Handshake();
  REQUIRE(!shaken);
  RequireAuth(shaken.error(), "older than 1.3");
  SSL_free(ssl);
  BIO_free(wire);
  SSL_CTX_free(context);
}

TEST_CASE("tls: who knows no key is not believed for a certificate of its own") {
  TlsFiles files;
  Pair server_has_certificate(PskOf('k'), files.Member("ca", "rank"));
  server_has_certificate.Shake();
  RequireAuth(server_has_certificate.client_error, "a certificate instead of the pre-shared key");
  Pair client_has_certificate(files.Member("ca", "rank"), PskOf('k'));
  client_has_certificate.Shake();
  RequireAuth(client_has_certificate.server_error, "it offers no pre-shared key");
  RequireAuth(client_has_certificate.client_error, "does not use certificates");
}

TEST_CASE("tls: who speaks no TLS is refused at its first bytes") {
  for (const std::string_view said : {std::string_view("RONDOtcp\1\0aa", 12), std::string_view("GET / HTTP/1.1\r\n"),
                                      std::string_view("\0\0\0\0\0\0\0\0", 8), std::string_view("SSH-2.0-x")}) {
    CAPTURE(said);
    for (const Role role : {Role::kClient, Role::kServer}) {
      const auto session = Session(PskOf('k'), role);
      REQUIRE(session->Handshake() == false);
      const MutableBytes room = session->Room();
      std::copy_n(AsBytes(said).begin(), said.size(), room.begin());
      session->Received(said.size());
      const auto shaken = session->Handshake();
      REQUIRE(!shaken);
      RequireAuth(shaken.error(), "does not speak TLS");
    }
  }
}

TEST_CASE("tls: a client that meets a side without TLS learns so from its answer") {
  const auto client = Session(PskOf('k'), Role::kClient);
  REQUIRE(client->Handshake() == false);
  CHECK(BeginsTls(client->Unsent()));
  const MutableBytes room = client->Room();
  std::copy(kTlsNotSpoken.begin(), kTlsNotSpoken.end(), room.begin());
  client->Received(kTlsNotSpoken.size());
  const auto shaken = client->Handshake();
  REQUIRE(!shaken);
  RequireAuth(shaken.error(), "does not speak TLS, but this process does");
}

TEST_CASE("tls: a stream that is cut off anywhere in the handshake ends it with an error") {
  Pair whole(PskOf('k'), PskOf('k'));
  whole.Shake(1);
  for (std::size_t cut = 0;; cut += 13) {
    CAPTURE(cut);
    Pair pair(PskOf('k'), PskOf('k'));
    std::size_t carried = 0;
    bool cut_here = false;
    for (int quiet = 0; quiet < 3 && !cut_here;) {
      (void)pair.client->Handshake();
      (void)pair.server->Handshake();
      const bool to_server = carried < cut && Carry(*pair.client, *pair.server, 1) != 0;
      carried += to_server;
      const bool to_client = Carry(*pair.server, *pair.client, 1) != 0;
      quiet = to_server || to_client ? 0 : quiet + 1;
      cut_here = carried == cut && !pair.server->established() && quiet == 2;
    }
    if (pair.server->established()) break;
    pair.server->ReceivedEnd();
    const auto shaken = pair.server->Handshake();
    REQUIRE(!shaken);
    CHECK(shaken.error().code() == ErrorCode::kConnectionReset);
  }
}

TEST_CASE("tls: a byte that changes on the way is found, wherever it is") {
  for (std::size_t place = 0; place < 60; place += 3) {
    CAPTURE(place);
    Pair pair(PskOf('k'), PskOf('k'));
    pair.Shake();
    const std::string text = "thirty-eight bytes of no great interest";
    const std::array<Bytes, 1> pieces{AsBytes(text)};
    REQUIRE(pair.client->Write(pieces) == text.size());
    const Bytes front = pair.client->Unsent();
    REQUIRE(front.size() > place);
    const MutableBytes room = pair.server->Room();
    std::copy(front.begin(), front.end(), room.begin());
    room[place] ^= std::byte{0x10};
    pair.server->Received(front.size());
    pair.server->ReceivedEnd();
    std::array<std::byte, 100> some;
    const auto got = pair.server->Read(some);
    REQUIRE(!got);
    const ErrorCode code = got.error().code();  // if the length was damaged, the stream ends too early
    CHECK((code == ErrorCode::kCorrupt || code == ErrorCode::kProtocol || code == ErrorCode::kConnectionReset));
    CHECK(pair.server->Read(some).error().ToString() == got.error().ToString());
  }
}

TEST_CASE("tls: an end that was announced is one, and one that was not is an error after the last byte") {
  for (const bool announced : {true, false}) {
    CAPTURE(announced);
    Pair pair(PskOf('k'), PskOf('k'));
    pair.Shake();
    const std::array<Bytes, 1> pieces{AsBytes("last bytes")};
    REQUIRE(pair.client->Write(pieces) == 10);
    if (announced) pair.client->Finish();
    Carry(*pair.client, *pair.server, SIZE_MAX);
    pair.server->ReceivedEnd();
    std::array<std::byte, 100> some;
    CHECK(pair.server->Read(some) == 10);
    const auto end = pair.server->Read(some);
    CHECK(pair.server->ended() == announced);
    REQUIRE(end.has_value() == announced);
    if (!announced) CHECK(end.error().code() == ErrorCode::kConnectionReset);
    // The server must not send an alert, because the alert would be useless here, and could arrive before the peer has
    // read the earlier bytes.
    CHECK(pair.server->Unsent().empty());
  }
}

TEST_CASE("tls: keys change as often as wanted, and neither side notices") {
  Pair pair(PskOf('k'), PskOf('k'));
  pair.Shake();
  pair.client->ChangeKeysAfter(2);
  for (int i = 0; i < 300; ++i) {
    const std::string text = "record " + std::to_string(i);
    REQUIRE(Through(*pair.client, *pair.server, text) == text);
  }
}

TEST_CASE("tls: options that cannot serve are refused by name") {
  TlsFiles files;
  const TlsOptions good = files.Member("ca", "rank");
  const auto refuse = [](const TlsOptions& options, std::string_view word) {
    const auto made = TlsContext::Make(options);
    REQUIRE(!made);
    CAPTURE(made.error().ToString());
    CHECK(made.error().code() == ErrorCode::kInvalidArgument);
    CHECK(made.error().message().find(word) != std::string::npos);
  };
  TlsOptions bad = PskOf('k');
  bad.psk.pop_back();
  refuse(bad, "got 31");
  bad = good;
  bad.ca_file = "";
  refuse(bad, "CA file");
  bad = good;
  bad.ca_file = "/nowhere/ca.pem";
  refuse(bad, "CA file '/nowhere/ca.pem': No such file");
  bad = good;
  bad.certificate_file = files.Write("junk.pem", "no certificate");
  refuse(bad, "certificate file '");
  bad = good;
  bad.key_file = files.Member("ca", "other").key_file;
  refuse(bad, "key values mismatch");
  CHECK(*TlsContext::Make({}) == nullptr);
}

TEST_CASE("tls: modes are known by their names") {
  for (const TlsMode mode : {TlsMode::kOff, TlsMode::kPsk, TlsMode::kCertificates}) {
    CHECK(ParseTlsMode("--tls", Name(mode)) == mode);
  }
  CHECK(ParseTlsMode("--tls", "yes").error().message() == "--tls is 'yes'; expected off, psk or certificates");
}

}  // namespace tls_test
}  // namespace rondo
