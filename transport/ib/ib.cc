#include "transport/ib/ib.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "transport/device_memory.h"
#include "transport/ib/address.h"
#include "transport/ib/device.h"
#include "transport/ib/device_memory_probe.h"
#include "transport/ib/endpoint.h"
#include "transport/ib/memory.h"
#include "transport/ib/ports.h"
#include "transport/ib/registrations.h"
#include "transport/ib/verbs_library.h"
#include "transport/ib/zero_copy_sends.h"
#include "transport/tcp/interfaces.h"

namespace rondo {
namespace ib {
namespace {

using Devices = std::vector<std::shared_ptr<const Device>>;

// Opens the chosen ports: at least one, in the order in which lanes try them.
Result<Devices> OpenPorts(const std::string& wish) {
  // The kernel's list of devices is read first, because most machines have no device and need not load a library.
  std::error_code none;
  if (!std::filesystem::exists("/sys/class", none))
    return Fail(ErrorCode::kUnsupported,
                "cannot find out whether this machine has RDMA devices, because /sys is not mounted");
  if (std::filesystem::is_empty("/sys/class/infiniband", none) || none)
    return Fail(ErrorCode::kUnsupported, "this machine has no RDMA device (none in /sys/class/infiniband)");
  RONDO_ASSIGN(const VerbsLibrary library, LoadVerbs());
  RONDO_ASSIGN(const std::vector<Port> ports, EnumeratePorts(library));
  RONDO_ASSIGN(const auto addresses, tcp::EnumerateInterfaces());
  RONDO_ASSIGN(std::vector<ChosenPort> chosen, ChoosePorts(ports, addresses, wish));
  Devices devices;
  for (ChosenPort& one : chosen) {
    auto device = Device::Open(library, std::move(one));
    if (device)
      devices.push_back(std::move(*device));
    else if (devices.empty() || !wish.empty())  // otherwise the port is skipped, because the user did not choose it
      return tl::unexpected(std::move(device).error());
  }
  return devices;
}

class IbTransport final : public Transport, public DeviceRegistrar {
 public:
  IbTransport(std::shared_ptr<Transport> base, IbOptions options, Devices devices, std::string why_none)
      : base_(std::move(base)),
        options_(std::move(options)),
        devices_(std::move(devices)),
        why_none_(std::move(why_none)),
        device_memory_(DecideDeviceMemory(FindDeviceMemoryFacts(devices_), options_.device_memory)),
        capabilities_{.push = !devices_.empty(),
                      .late_release = base_->capabilities().late_release || !devices_.empty(),
                      .moves_on_cores = !devices_.empty() && devices_.front()->port().software} {}

  std::string_view name() const override { return "ib"; }
  const Capabilities& capabilities() const override { return capabilities_; }
  std::string Address() const override {
    return Encode(IbAddress{.host_id = options_.host_id,
                            .port = devices_.empty() ? ""
                                                     : fmt::format("{} {}", devices_.front()->port().Name(),
                                                                   devices_.front()->gid().ToString()),
                            .base = base_->Address()});
  }
  std::string DescribeAddress() const override {
    if (devices_.empty()) return fmt::format("ib: {}, so\n{}", why_none_, base_->DescribeAddress());
    std::string text;
    for (const auto& device : devices_)
      text += fmt::format("ib: {} ({}), otherwise\n", device->port().ToString(), device->reason());
    return text + base_->DescribeAddress();
  }

  Result<std::unique_ptr<Endpoint>> OpenEndpoint(const EndpointConfig& config) override {
    EndpointSetUp set_up{.config = config,
                         .by_rdma = {},
                         .devices = devices_,
                         .ring_bytes = options_.ring_bytes,
                         .registered = registered_,
                         .connection = Connection(),
                         .may_be_plain = options_.may_fall_back,
                         .logger = options_.logger};
    EndpointConfig of_base = config;
    std::vector<IbAddress> peers;
    for (std::size_t rank = 0; rank < config.addresses.size(); ++rank) {
      auto address = DecodeIbAddress(config.addresses[rank]);
      if (!address)
        return Fail(ErrorCode::kInvalidArgument,
                    "the address of rank {} cannot be used: {}. Does that rank use another transport?", rank,
                    address.error().message());
      of_base.addresses[rank] = address->base;
      peers.push_back(std::move(*address));
    }
    const auto own = static_cast<std::size_t>(config.rank);
    for (std::size_t rank = 0; rank < peers.size(); ++rank) {
      if (!options_.may_fall_back && peers[rank].port.empty())
        return Fail(ErrorCode::kUnsupported, "rank {} has no RDMA port, but only RDMA is allowed", rank);
      set_up.by_rdma.push_back(rank != own && MayUseRdma(peers[own], peers[rank]));
    }
    RONDO_ASSIGN(auto base, base_->OpenEndpoint(of_base));
    if (std::find(set_up.by_rdma.begin(), set_up.by_rdma.end(), true) == set_up.by_rdma.end()) return base;
    return IbEndpoint::Create(std::move(set_up), std::move(base));
  }

  // Returns memory of the base transport, registered with all devices. If it cannot be registered, it is still
  // returned, and lanes copy from it.
  Result<std::unique_ptr<Memory>> Allocate(std::size_t bytes) override {
    RONDO_ASSIGN(auto memory, base_->Allocate(bytes));
    if (devices_.empty() || bytes < kLeastZeroCopyBytes) return memory;
    auto registration = RegisterAllocated(memory->bytes());
    if (registration) return Together(std::move(memory), std::move(*registration));
    if (!logged_unregistered_.exchange(true, std::memory_order_relaxed))
      Log(options_.logger, LogLevel::kWarning,
          "allocated memory cannot be registered for RDMA, so data that is sent from it will be copied: {}",
          registration.error().message());
    return memory;
  }
  Result<std::unique_ptr<Registration>> Register(MutableBytes memory) override {
    if (devices_.empty() || memory.size() < kLeastZeroCopyBytes || !devices_.front()->verbs().forks_safely())
      return base_->Register(memory);
    return RegisterWith(devices_, registered_, memory);
  }
  DeviceRegistrar* device_registrar() override { return this; }
  Result<std::unique_ptr<DeviceRegistration>> RegisterDevice(const DeviceMemory& memory) override {
    if (devices_.empty())
      return Fail(ErrorCode::kUnsupported,
                  "memory of {} cannot be sent directly by RDMA, because {}; stage it through pinned host memory",
                  memory.device, why_none_);
    return RegisterOfDevice(devices_, registered_, device_memory_, memory);
  }

 private:
  Result<std::unique_ptr<Registration>> RegisterAllocated(MutableBytes memory) const {
    RONDO_TRY(KeepFromChildren(*devices_.front(), memory));
    return RegisterWith(devices_, registered_, memory);
  }
  QueuePairOptions Connection() const {
    return {.timeout_exponent = static_cast<std::uint8_t>(options_.timeout_exponent),
            .retries = static_cast<std::uint8_t>(options_.retries),
            .service_level = static_cast<std::uint8_t>(options_.service_level),
            .traffic_class = static_cast<std::uint8_t>(options_.traffic_class)};
  }

  const std::shared_ptr<Transport> base_;
  const IbOptions options_;
  const Devices devices_;
  const std::string why_none_;
  const DeviceMemoryWays device_memory_;
  const Capabilities capabilities_;
  const std::shared_ptr<Registrations> registered_ = std::make_shared<Registrations>();
  std::atomic<bool> logged_unregistered_{false};
};

Status Check(const IbOptions& options) {
  if (!std::has_single_bit(options.ring_bytes) || options.ring_bytes < 4096 || options.ring_bytes > (1u << 30))
    return Fail(ErrorCode::kInvalidArgument, "ring_bytes is {}; expected a power of two from 4096 to 2^30",
                options.ring_bytes);
  if (options.host_id.size() > 255)
    return Fail(ErrorCode::kInvalidArgument, "host_id has {} bytes; at most 255 are allowed", options.host_id.size());
  const auto within = [](std::string_view name, int value, int least, int most) -> Status {
    if (value >= least && value <= most) return {};
    return Fail(ErrorCode::kInvalidArgument, "{} is {}; expected {} to {}", name, value, least, most);
  };
  RONDO_TRY(within("timeout_exponent", options.timeout_exponent, 1, 31));
  RONDO_TRY(within("retries", options.retries, 0, 6));
  RONDO_TRY(within("service_level", options.service_level, 0, 15));
  return within("traffic_class", options.traffic_class, 0, 255);
}

}  // namespace
}  // namespace ib

Result<std::shared_ptr<Transport>> MakeIbTransport(std::shared_ptr<Transport> base, IbOptions options) {
  RONDO_TRY(ib::Check(options));
  auto devices = ib::OpenPorts(options.port);
  // A device or port in options.port that does not exist is an error, even if falling back is allowed.
  if (!devices && (!options.may_fall_back || devices.error().code() == ErrorCode::kInvalidArgument))
    return tl::unexpected(std::move(devices).error());
  const std::string why_none = devices ? "" : devices.error().message();
  return std::make_shared<ib::IbTransport>(std::move(base), std::move(options),
                                           devices ? std::move(*devices) : ib::Devices{}, why_none);
}

std::string BaseOfIbAddress(const std::string& address) {
  const auto decoded = ib::DecodeIbAddress(address);
  return decoded ? decoded->base : address;
}

Status CheckIbPort(const std::string& port) {
  const auto devices = ib::OpenPorts(port);
  return devices ? Status{} : tl::unexpected(devices.error());
}

}  // namespace rondo
