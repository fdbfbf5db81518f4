// base/tls: any bytes that a client of a port, or an attacker on the path, can send to either side of TLS, before and
// after its handshake.
//
// OpenSSL's output is random, so the checks must hold for any random numbers. No side without the key is accepted. No
// bytes are returned that the owner of the key did not send. Every error is typed and permanent, and no announced
// length causes an allocation.
#include <algorithm>

#include "base/tls.h"
#include "rendezvous/tls_settings.h"
#include "tests/fuzz/harness.h"

namespace rondo::fuzz::tls_session_fuzz {
using Role = TlsSession::Role;

// A handshake message may announce up to 128 KiB, for which OpenSSL then allocates memory.
constexpr std::size_t kLargestAllocation = 256 << 10;

// The recorded first message of a client with the key below. It is valid and can be replayed. No recording can contain
// a valid next message.
constexpr std::string_view kRecordedHello =
    "16030100fc010000f803036955f71bcb64d1103b78c87585776e90b303ee0a51c36a634865b5df5b2b470520c2b88aaf"
    "92cd3ef6d3e2bd0fdc5757d7ab8e5e1c99dbd884536f926a44551f52000813011303130200ff010000a7000b00040300"
    "0102000a00060004001d00170016000000170000000d001e001c040305030603080708080809080a080b080408050806"
    "040105010601002b0003020304002d00020101003300260024001d0020923ab62568aa09a610d1fa4d0681a0520309ad"
    "f65cfa8837285c3e7bd6ddfb0300290030000b0005726f6e646f00000000002120a99a4ef83ddc1e258473a6207cfaee"
    "847868b70c24097bdf21186d3ce3c2a60f";

std::string Unhex(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); i += 2 * kTlsPskBytes) {
    std::string part(text.substr(i, 2 * kTlsPskBytes));
    const std::size_t digits = part.size();
    part.resize(2 * kTlsPskBytes, '0');
    bytes += ParseTlsPsk(part)->substr(0, digits / 2);
  }
  return bytes;
}

const std::shared_ptr<const TlsContext>& Context() {
  static const std::shared_ptr<const TlsContext> context = [] {
    TlsOptions options;
    options.mode = TlsMode::kPsk;
    options.psk = std::string(kTlsPskBytes, 'k');
    return *TlsContext::Make(options);
  }();
  return context;
}

std::unique_ptr<TlsSession> Session(Role role) { return *TlsSession::Make(Context(), role, "127.0.0.1:1"); }

std::size_t Carry(TlsSession& from, TlsSession& to) {
  const Bytes front = from.Unsent();
  const MutableBytes room = to.Room();
  const std::size_t bytes = std::min(front.size(), room.size());
  std::copy_n(front.begin(), bytes, room.begin());
  to.Received(bytes);
  from.Sent(bytes);
  return bytes;
}

// Continues the session as its owner would. False: the session has failed permanently.
bool GoOn(TlsSession& session) {
  if (!session.established()) {
    const Result<bool> shaken = session.Handshake();
    CheckError(shaken);
    if (!shaken) RONDO_HOLDS(session.Handshake().error().ToString() == shaken.error().ToString());
    if (!shaken || !*shaken) return shaken.has_value();
  }
  std::array<std::byte, 64> bytes;
  const auto got = session.Read(bytes);
  CheckError(got);
  RONDO_HOLDS(!got || *got == 0, "{} bytes from a peer that does not know the key", *got);
  RONDO_HOLDS(!session.ended());
  return got.has_value();
}

void Receive(TlsSession& session, std::string_view input, Cut cut) {
  const bool established = session.established();
  for (std::string_view piece : Pieces(input, cut)) {
    while (!piece.empty()) {
      const MutableBytes room = session.Room();
      RONDO_HOLDS(!room.empty(), "nothing was read");
      const std::size_t bytes = std::min(piece.size(), room.size());
      std::copy_n(AsBytes(piece).begin(), bytes, room.begin());
      session.Received(bytes);
      piece.remove_prefix(bytes);
      if (!GoOn(session)) return;
      session.Sent(session.Unsent().size());
    }
  }
  RONDO_HOLDS(session.established() == established);
  session.ReceivedEnd();
  RONDO_HOLDS(!GoOn(session));
}

void CheckInput(std::string_view input) {
  const Allocations allocations;
  for (const Cut cut : {Cut::kWhole, Cut::kDrawn}) {
    const auto server = Session(Role::kServer);
    Receive(*server, input, cut);
    const auto client = Session(Role::kClient);
    GoOn(*client);
    client->Sent(client->Unsent().size());
    Receive(*client, input, cut);
  }
  // Sends the input into an established session.
  const auto client = Session(Role::kClient);
  const auto server = Session(Role::kServer);
  do {
    GoOn(*client);
    Carry(*client, *server);
    GoOn(*server);
  } while (Carry(*server, *client) != 0);
  GoOn(*client);
  Carry(*client, *server);
  GoOn(*server);
  RONDO_HOLDS(client->established() && server->established());
  Receive(*server, input, Cut::kDrawn);
  allocations.CheckLargest(kLargestAllocation);
}

Corpus HarnessCorpus() {
  Corpus corpus;
  corpus.seeds.push_back(Unhex(kRecordedHello));
  corpus.seeds.push_back(ToText(kTlsNotSpoken));
  corpus.seeds.push_back(std::string("\x14\x03\x03\x00\x01\x01", 6) + std::string("\x17\x03\x03\x00\x14", 5) +
                         std::string(20, 'c'));
  corpus.seeds.push_back("RONDOtcp");
  corpus.seeds.push_back("GET / HTTP/1.1\r\n\r\n");
  corpus.words = {std::string("\x16\x03\x01", 3), std::string("\x15\x03\x03\x00\x02\x02", 6),
                  std::string("\x17\x03\x03", 3), "rondo"};
  return corpus;
}

}  // namespace rondo::fuzz::tls_session_fuzz
