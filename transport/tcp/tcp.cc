#include "transport/tcp/tcp.h"

#include <fmt/core.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <new>
#include <string_view>
#include <utility>

#include "transport/mapped_memory.h"
#include "transport/tcp/address.h"
#include "transport/tcp/control_plane.h"
#include "transport/tcp/endpoint.h"
#include "transport/tcp/interfaces.h"

namespace rondo {
namespace tcp {
namespace {

// Sockets copy from any memory, so there is nothing to register.
class NoRegistration final : public Registration {};

class TcpTransport final : public Transport {
 public:
  explicit TcpTransport(std::shared_ptr<ControlPlane> plane)
      : owner_pid_(getpid()),
        plane_(std::move(plane)),
        capabilities_{.late_release = plane_->options().tls != nullptr} {}
  ~TcpTransport() override {
    // A forked child has no control thread to end, so the control plane is never destroyed there.
    if (getpid() != owner_pid_) (void)new (std::nothrow) std::shared_ptr(plane_);
  }

  std::string_view name() const override { return "tcp"; }
  const Capabilities& capabilities() const override { return capabilities_; }
  std::string Address() const override { return Encode(plane_->address()); }
  std::string DescribeAddress() const override { return plane_->Describe(); }

  Result<std::unique_ptr<Endpoint>> OpenEndpoint(const EndpointConfig& config) override {
    return TcpEndpoint::Create(plane_, config);
  }
  Result<std::unique_ptr<Memory>> Allocate(std::size_t bytes) override { return MapMemory(bytes); }
  Result<std::unique_ptr<Registration>> Register(MutableBytes) override { return std::make_unique<NoRegistration>(); }

 private:
  const int owner_pid_;
  const std::shared_ptr<ControlPlane> plane_;
  const Capabilities capabilities_;
};

Result<std::string> RandomInstance() {
  std::array<std::uint64_t, 2> random{};
  if (getrandom(random.data(), sizeof random, 0) != sizeof random) {
    return Fail(ErrorCode::kResource, "cannot draw a random name for this process: the system gave no random bytes");
  }
  return fmt::format("{:016x}{:016x}", random[0], random[1]);
}

}  // namespace
}  // namespace tcp

Result<std::shared_ptr<Transport>> MakeTcpTransport(TcpOptions options) {
  const std::array<std::pair<const char*, const std::string*>, 3> texts{
      {{"job", &options.job}, {"instance", &options.instance}, {"host_id", &options.host_id}}};
  for (const auto& [name, text] : texts) {
    if (text->size() > tcp::kMaxNameBytes) {
      return Fail(ErrorCode::kInvalidArgument, "{} has {} bytes; at most {} are allowed", name, text->size(),
                  tcp::kMaxNameBytes);
    }
  }
  if (options.max_pending_handshakes == 0) {
    return Fail(ErrorCode::kInvalidArgument, "max_pending_handshakes is 0, so no rank could ever connect");
  }
  if (options.addresses.size() > tcp::kMaxCandidates) {
    return Fail(ErrorCode::kInvalidArgument, "{} addresses are given; at most {} are allowed", options.addresses.size(),
                tcp::kMaxCandidates);
  }
  if (options.instance.empty()) {
    RONDO_ASSIGN(options.instance, tcp::RandomInstance());
  }
  if (!options.clock) options.clock = std::make_shared<SteadyClock>();
  if (!options.counters) options.counters = std::make_shared<TcpCounters>();
  RONDO_ASSIGN(std::shared_ptr<tcp::ControlPlane> plane, tcp::ControlPlane::Start(std::move(options)));
  return std::make_shared<tcp::TcpTransport>(std::move(plane));
}

std::vector<std::string> PublishedHosts(const std::string& transport_address) {
  std::vector<std::string> hosts, local;
  const auto address = tcp::DecodeTcpAddress(transport_address);
  if (!address) return hosts;
  for (const tcp::Candidate& candidate : address->candidates) {
    const bool anywhere =
        candidate.address_class == tcp::AddressClass::kGlobal || candidate.address_class == tcp::AddressClass::kVirtual;
    (anywhere ? hosts : local).push_back(candidate.at.ip.ToString());
  }
  return hosts.empty() ? local : hosts;
}

Status CheckLocalAddresses(const std::vector<std::string>& addresses) {
  RONDO_ASSIGN(const auto local, tcp::EnumerateInterfaces());
  const auto chosen = tcp::ChooseAddresses(local, addresses, "");
  return chosen ? Status{} : tl::unexpected(chosen.error());
}

namespace {

// Separates the two parts of a host id.
constexpr std::string_view kNetworkMark = "/net:";

}  // namespace

Result<std::string> FindHostId(const std::string& root) {
  const auto unknown = [](std::string_view file, std::string_view why) {
    return Fail(ErrorCode::kUnsupported, "this process cannot tell which host it is on: {}: {} (is /proc mounted?)",
                file, why);
  };
  const std::string boot = "/proc/sys/kernel/random/boot_id", network = "/proc/self/ns/net";
  std::ifstream file(root + boot);
  if (!file) return unknown(boot, std::strerror(errno));
  std::string boot_id;
  if (!(file >> boot_id)) return unknown(boot, "it is empty");
  struct stat of_network {};
  if (stat((root + network).c_str(), &of_network) != 0) return unknown(network, std::strerror(errno));
  return fmt::format("{}{}{}", boot_id, kNetworkMark, of_network.st_ino);
}

std::string LocalHostId() { return FindHostId().value_or(""); }

std::string WhyNotOneHost(const std::string& own, const std::string& peer) {
  if (own.empty()) {
    const auto again = FindHostId();
    return again ? "this process could not tell which host it is on" : again.error().message();
  }
  if (peer.empty()) return "that rank cannot tell which host it is on (is /proc mounted there?)";
  const auto kernel = [](std::string_view id) { return id.substr(0, id.find(kNetworkMark)); };
  const bool apart = own != peer && kernel(own) == kernel(peer);
  return apart ? "both ranks are on one machine, but in network namespaces of their own" : "";
}

std::string LocalHostName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace rondo
