#include "transport/fault/faulty_transport.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>

#include "transport/fault/faulty_endpoint.h"

namespace rondo::fault {
namespace {

class FaultyTransport final : public Transport {
 public:
  FaultyTransport(std::shared_ptr<Transport> inner, std::shared_ptr<FaultInjector> injector)
      : inner_(std::move(inner)), injector_(std::move(injector)) {}

  // Returns the inner transport's name, because programs check the name.
  std::string_view name() const override { return inner_->name(); }
  const Capabilities& capabilities() const override { return inner_->capabilities(); }
  std::string Address() const override { return inner_->Address(); }
  std::string DescribeAddress() const override {
    return fmt::format("with injected faults: {}\n{}", ToString(injector_->plan()), inner_->DescribeAddress());
  }
  Result<std::unique_ptr<Endpoint>> OpenEndpoint(const EndpointConfig& config) override {
    RONDO_ASSIGN(std::unique_ptr<Endpoint> inner, inner_->OpenEndpoint(config));
    return std::make_unique<FaultyEndpoint>(std::move(inner), config.rank, injector_);
  }
  Result<std::unique_ptr<Memory>> Allocate(std::size_t bytes) override { return inner_->Allocate(bytes); }
  Result<std::unique_ptr<Registration>> Register(MutableBytes memory) override { return inner_->Register(memory); }

 private:
  const std::shared_ptr<Transport> inner_;
  const std::shared_ptr<FaultInjector> injector_;
};

}  // namespace

Result<std::shared_ptr<Transport>> MakeFaultyTransport(std::shared_ptr<Transport> inner,
                                                       std::shared_ptr<FaultInjector> injector) {
  const auto& faults = injector->plan().faults;
  const auto kill =
      std::find_if(faults.begin(), faults.end(), [](const Fault& f) { return f.kind == FaultKind::kKill; });
  if (kill != faults.end() && !injector->can_kill()) {
    return Fail(ErrorCode::kInvalidArgument, "the fault plan has {}, but InjectorOptions::kill is not set",
                ToString(*kill));
  }
  return std::make_shared<FaultyTransport>(std::move(inner), std::move(injector));
}

}  // namespace rondo::fault
