#include "transport/fault/proxied_transport.h"

#include <fmt/core.h>

#include <cstdint>
#include <utility>

#include "transport/fault/tcp_streams.h"
#include "transport/tcp/address.h"

namespace rondo::fault {
namespace {

class ProxiedTransport final : public Transport {
 public:
  ProxiedTransport(std::shared_ptr<Transport> tcp, std::shared_ptr<Proxy> proxy, std::string address)
      : proxy_(std::move(proxy)), tcp_(std::move(tcp)), address_(std::move(address)) {}

  std::string_view name() const override { return tcp_->name(); }
  const Capabilities& capabilities() const override { return tcp_->capabilities(); }
  std::string Address() const override { return address_; }
  std::string DescribeAddress() const override {
    return fmt::format("through a proxy that injects faults:\n{}", tcp_->DescribeAddress());
  }
  Result<std::unique_ptr<Endpoint>> OpenEndpoint(const EndpointConfig& config) override {
    return tcp_->OpenEndpoint(config);
  }
  Result<std::unique_ptr<Memory>> Allocate(std::size_t bytes) override { return tcp_->Allocate(bytes); }
  Result<std::unique_ptr<Registration>> Register(MutableBytes memory) override { return tcp_->Register(memory); }

 private:
  const std::shared_ptr<Proxy> proxy_;  // kept alive, because peers connect through the proxy
  const std::shared_ptr<Transport> tcp_;
  const std::string address_;
};

}  // namespace

Result<std::string> ThroughProxy(const std::string& transport_address, Proxy& proxy, const std::string& name) {
  RONDO_ASSIGN(tcp::TcpAddress address, tcp::DecodeTcpAddress(transport_address));
  for (tcp::Candidate& candidate : address.candidates) {
    ProxyRoute route;
    route.name = name;
    route.at = candidate.at.ip.ToString();
    route.to = candidate.at.ToString();
    route.recognise = RecogniseTcpTransport;
    RONDO_ASSIGN(candidate.at.port, proxy.Listen(std::move(route)));
  }
  return tcp::Encode(address);
}

Result<std::shared_ptr<Transport>> MakeProxiedTransport(std::shared_ptr<Transport> tcp, std::shared_ptr<Proxy> proxy,
                                                        const std::string& name) {
  RONDO_ASSIGN(std::string address, ThroughProxy(tcp->Address(), *proxy, name));
  return std::make_shared<ProxiedTransport>(std::move(tcp), std::move(proxy), std::move(address));
}

}  // namespace rondo::fault
