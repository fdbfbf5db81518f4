// A transport that wraps another one. Its lanes send from the memory of a plain device (plain_device.h), as network
// adapters send from a GPU's memory. The lanes use the device address of registered memory; no code of the program
// under test accesses the bytes at that address.
//
// Thread rule: as for the inner transport.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "tests/support/passing_lane.h"
#include "tests/support/passing_transport.h"
#include "tests/support/plain_device.h"
#include "transport/device_memory.h"
#include "transport/transport.h"

namespace rondo {

// The simulated network adapters of one rank.
class PlainAdapters final : public DeviceRegistrar {
 public:
  explicit PlainAdapters(PlainDevice& device) : device_(device) {}

  // Refuses all later registrations. Lanes do not send memory that was refused.
  void Refuse() { refuses_ = true; }
  void SetSending(bool sends) { sends_ = sends; }
  bool sends() const { return sends_; }
  int registered() const { return registered_; }  // number of current registrations
  int asked() const { return asked_; }            // number of all requests for a registration
  std::uint64_t bytes_sent() const { return bytes_sent_; }

  Result<std::unique_ptr<DeviceRegistration>> RegisterDevice(const DeviceMemory& memory) override {
    ++asked_;
    if (refuses_) return Fail(ErrorCode::kUnsupported, "these adapters take no memory of devices");
    return std::unique_ptr<DeviceRegistration>(new Known(*this, memory.bytes));
  }
  // The bytes to send for `piece`: the device's bytes if the memory is registered, otherwise `piece` itself. If
  // registered memory was freed meanwhile, other bytes are sent, even if there is new memory at the same address. A
  // real adapter would also send other bytes, because it would still use the old pages.
  Bytes Sent(Bytes piece) {
    const std::lock_guard lock(mutex_);
    for (const Known* const known : known_) {
      if (!known->Covers(piece)) continue;
      bytes_sent_ += piece.size();
      if (device_.IdentityOf(piece.data()) == known->identity()) return {device_.Behind(piece), piece.size()};
      return left_overs_.emplace_back(piece.size(), std::byte{0xDD});
    }
    return piece;
  }

 private:
  class Known final : public DeviceRegistration {
   public:
    Known(PlainAdapters& adapters, Bytes memory)
        : adapters_(adapters), memory_(memory), identity_(adapters.device_.IdentityOf(memory.data())) {
      const std::lock_guard lock(adapters_.mutex_);
      adapters_.known_.push_back(this);
      ++adapters_.registered_;
    }
    ~Known() override {
      const std::lock_guard lock(adapters_.mutex_);
      std::erase(adapters_.known_, this);
      --adapters_.registered_;
    }
    DeviceMemoryWay way() const override { return DeviceMemoryWay::kPeerMemory; }
    bool Covers(Bytes piece) const {
      return memory_.data() <= piece.data() && piece.data() + piece.size() <= memory_.data() + memory_.size();
    }
    std::uint64_t identity() const { return identity_; }

   private:
    PlainAdapters& adapters_;
    const Bytes memory_;
    const std::uint64_t identity_;
  };

  PlainDevice& device_;
  std::mutex mutex_;
  std::vector<const Known*> known_;
  std::deque<std::vector<std::byte>> left_overs_;  // copies that must be kept, because lanes may still read them
  std::atomic<bool> refuses_{false}, sends_{true};
  std::atomic<int> registered_{0}, asked_{0};
  std::atomic<std::uint64_t> bytes_sent_{0};
};

class DeviceSendingLane final : public PassingLane {
 public:
  DeviceSendingLane(Lane& lane, PlainAdapters& adapters) : PassingLane(lane), adapters_(adapters) {}

  bool sends_device_memory() const override { return adapters_.sends(); }
  std::size_t Write(std::span<const Bytes> pieces) override {
    std::array<Bytes, 32> sent;
    RONDO_CHECK(pieces.size() <= sent.size());
    for (std::size_t i = 0; i < pieces.size(); ++i) sent[i] = adapters_.Sent(pieces[i]);
    return lane().Write(std::span(sent.data(), pieces.size()));
  }

 private:
  PlainAdapters& adapters_;
};

class DeviceSendingEndpoint final : public PassingEndpoint {
 public:
  DeviceSendingEndpoint(std::unique_ptr<Endpoint> endpoint, PlainAdapters& adapters)
      : PassingEndpoint(std::move(endpoint)), adapters_(adapters) {}

  Result<Lane*> Open(Rank peer, std::uint32_t index) override {
    RONDO_ASSIGN(Lane * lane, PassingEndpoint::Open(peer, index));
    std::unique_ptr<DeviceSendingLane>& own = lanes_[{peer, index}];
    if (own == nullptr) own = std::make_unique<DeviceSendingLane>(*lane, adapters_);
    return own.get();
  }

 private:
  std::map<std::pair<Rank, std::uint32_t>, std::unique_ptr<DeviceSendingLane>> lanes_;
  PlainAdapters& adapters_;
};

class DeviceSendingTransport final : public PassingTransport {
 public:
  // `adapters` must outlive the transport and its endpoints.
  DeviceSendingTransport(std::shared_ptr<Transport> transport, PlainAdapters& adapters)
      : PassingTransport(std::move(transport)), adapters_(adapters) {}

  Result<std::unique_ptr<Endpoint>> OpenEndpoint(const EndpointConfig& config) override {
    RONDO_ASSIGN(auto endpoint, inner().OpenEndpoint(config));
    return std::unique_ptr<Endpoint>(std::make_unique<DeviceSendingEndpoint>(std::move(endpoint), adapters_));
  }
  DeviceRegistrar* device_registrar() override { return &adapters_; }

 private:
  PlainAdapters& adapters_;
};

}  // namespace rondo
