// Prints the first bytes that a client could send to the ports of a running job, in hexadecimal, as one JSON object.
// For every rank and for the store it prints the address, the correct first bytes, and copies of them that are wrong in
// one field. It runs in the environment of a rank under `rondo run`, and reads the rendezvous in the job's store. Any
// process that can reach the store can do the same.
//
//   {"ports": [{"who": "rank 0", "host": "127.0.0.1", "port": 4711, "right": {"control": HEX, ...},
//               "wrong": {"another job": HEX, ...}, "then": {"a wrong proof": HEX}}, ...]}
//
// If the job has a token, "then" has bytes that may follow the correct hello after the reply to it.
//
// This program takes layouts and versions from the library, so tests/faults/processes/foreign_clients need not contain
// them.
#include <fmt/core.h>

#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/access.h"
#include "base/byte_codec.h"
#include "base/clock.h"
#include "base/net/resolve.h"
#include "base/result.h"
#include "collectives/connect.h"
#include "rendezvous/job_token.h"
#include "rendezvous/tcp_store_protocol.h"
#include "rendezvous/url/init_method.h"
#include "rendezvous/url/open_store.h"
#include "transport/tcp/address.h"
#include "transport/tcp/handshake.h"

namespace rondo {
namespace {

constexpr auto kPatience = std::chrono::seconds(20);

std::string Hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}
std::string Hex(const std::vector<std::byte>& bytes) {
  return Hex(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

// Reads the address from a rank's entry in the store (rendezvous/membership.cc). The entry has host, host id, pid,
// instance and address.
Result<tcp::TcpAddress> AddressIn(std::string_view claim) {
  ByteReader in(claim);
  in.Text();
  in.Text();
  in.Number<std::uint64_t>();
  in.Text();
  return tcp::DecodeTcpAddress(in.Text());
}

using Words = std::map<std::string, std::string>;

nlohmann::json Port(const std::string& who, std::uint16_t port, const Words& right, const Words& wrong,
                    const Words& then) {
  return {{"who", who}, {"host", "127.0.0.1"}, {"port", port}, {"right", right}, {"wrong", wrong}, {"then", then}};
}

// The job to which this process belongs.
struct Job {
  std::string name;
  std::shared_ptr<const JobToken> token;  // null: the job has no token
  Nonce nonce{};  // used if there is a token; the same in all hellos, so that a hello can be repeated
};

// The first bytes that another rank of the job would send to rank `to`, and wrong copies of these bytes.
nlohmann::json PortOfRank(Rank to, const std::vector<tcp::TcpAddress>& ranks, const Job& job) {
  const int world = static_cast<int>(ranks.size());
  const tcp::TcpAddress& called = ranks[static_cast<std::size_t>(to)];
  tcp::Hello hello;
  hello.communicator = 1;
  hello.from = to + 1 < world ? to + 1 : to - 1;
  hello.to = to;
  hello.job = job.name;
  if (job.token != nullptr) hello.nonce = job.nonce;
  hello.from_instance = ranks[static_cast<std::size_t>(hello.from)].instance;
  hello.to_instance = called.instance;
  Words right{{"control", Hex(tcp::Encode(hello))}};
  if (hello.from > to) {  // only the higher rank opens lanes
    tcp::Hello lane = hello;
    lane.kind = tcp::ConnectionKind::kLane;
    right["lane"] = Hex(tcp::Encode(lane));
  }
  tcp::Hello later = hello;
  later.communicator = 4711;
  right["communicator that no rank opens"] = Hex(tcp::Encode(later));

  Words wrong;
  const auto but = [&](const std::string& name, auto change) {
    tcp::Hello changed = hello;
    change(changed);
    wrong[name] = Hex(tcp::Encode(changed));
  };
  but("another job", [](tcp::Hello& h) { h.job = "another"; });
  but("another generation", [](tcp::Hello& h) { h.generation += 1; });
  but("another process called", [](tcp::Hello& h) { h.to_instance = "0123456789abcdef"; });
  but("another process calls", [](tcp::Hello& h) { h.from_instance = "0123456789abcdef"; });
  but("a rank that is none", [](tcp::Hello& h) { h.from = 4711; });
  but("itself", [&](tcp::Hello& h) { h.from = to; });
  std::vector<std::byte> version = tcp::Encode(hello);
  // flips a bit of the version field, which follows the magic in every version of the format
  version[8] ^= std::byte{0x40};
  wrong["another version"] = Hex(version);
  std::vector<std::byte> length = tcp::Encode(hello);
  // These bytes give the length of the message after the preamble.
  length[tcp::kPreambleBytes - 2] = length[tcp::kPreambleBytes - 1] = std::byte{0xff};
  wrong["a huge length"] = Hex(length);
  Words then;
  if (job.token != nullptr) {
    but("no token", [](tcp::Hello& h) { h.nonce.reset(); });
    then["a wrong proof"] = Hex(tcp::Encode(TokenProof{}));
  }
  return Port(fmt::format("rank {}", to), called.candidates.front().at.port, right, wrong, then);
}

nlohmann::json PortOfStore(const HostPort& address, const Job& job) {
  using store_protocol::Encode;
  store_protocol::Hello hello{.job = job.name};
  Words wrong, then;
  if (job.token != nullptr) {
    wrong["no token"] = Hex(Encode(hello));
    hello.nonce.assign(reinterpret_cast<const char*>(job.nonce.data()), job.nonce.size());
    then["a wrong proof"] = Hex(std::string(kProofBytes, '\0'));
  }
  const std::string right = Encode(hello);
  store_protocol::Hello another = hello;
  another.version += 1;
  wrong["another version"] = Hex(Encode(another));
  std::string length = right;
  // These bytes give the length of job and nonce.
  length.replace(store_protocol::kHelloHeadBytes - 4, 4, "\xff\xff\xff\xff");
  wrong["a huge length"] = Hex(length);
  wrong["a huge request"] = Hex(right + "\xff\xff\xff\xff");  // the bytes after the hello give the length of a frame
  return Port("store", address.port, {{"client", Hex(right)}}, wrong, then);
}

Result<nlohmann::json> Ports() {
  SteadyClock clock;
  RONDO_ASSIGN(const InitMethod method, ParseInitMethod("env://", ProcessEnvironment));
  const TimePoint deadline = clock.Now() + kPatience;
  Job job{.name = method.job};
  RONDO_ASSIGN(const std::string text, TokenText("", ProcessEnvironment));
  RONDO_ASSIGN(job.token, MakeJobToken(text));
  if (job.token != nullptr) {
    RONDO_ASSIGN(job.nonce, job.token->DrawNonce());
  }
  RONDO_ASSIGN(const OpenedStore opened, OpenStore(method, {.job = method.job,
                                                            .identity = {.token = job.token, .tls = nullptr},
                                                            .rank = method.rank,
                                                            .external_store = true,
                                                            .who = "tests/faults/processes/foreign_clients",
                                                            .deadline = deadline}));
  std::vector<tcp::TcpAddress> ranks;
  for (Rank rank = 0; rank < method.world_size.value_or(0); ++rank) {
    const std::string key = fmt::format("rondo/{}/0/member/{}", method.job, rank);
    RONDO_ASSIGN(const std::string claim, opened.store().WaitFor(key, deadline));
    RONDO_ASSIGN(tcp::TcpAddress address, AddressIn(claim));
    ranks.push_back(std::move(address));
  }
  nlohmann::json ports = nlohmann::json::array();
  for (Rank rank = 0; rank < static_cast<Rank>(ranks.size()); ++rank) ports.push_back(PortOfRank(rank, ranks, job));
  // Describe returns a text such as "tcp://127.0.0.1:4711".
  RONDO_ASSIGN(const HostPort store, ParseHostPort(opened.store().Describe().substr(sizeof "tcp://" - 1)));
  ports.push_back(PortOfStore(store, job));
  return nlohmann::json{{"ports", ports}};
}

}  // namespace
}  // namespace rondo

int main() {
  const auto ports = rondo::Ports();
  if (!ports) {
    fmt::print(stderr, "hellos: {}\n", ports.error().ToString());
    return 1;
  }
  fmt::print("{}\n", ports->dump());
  return 0;
}
