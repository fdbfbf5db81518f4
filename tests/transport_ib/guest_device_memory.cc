// Tests that memory of a device is sent and that the CPU never reads it. Soft-RoCE does not support GPUs, but it reads
// registered pages through the kernel's own mapping. So the memory of a device is simulated by host pages. The test
// registers them by their address, as with nvidia_peermem, and then makes them inaccessible to this process
// (PROT_NONE). Any access by the process would crash it.
//
// Must run as root in a virtual machine of tools/dev/lab/rdma_vm (tests/vm). It takes the interface veth1, which the
// device rxe1 uses, down and up. The device rxe2 uses another interface.
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/net/fd.h"
#include "base/random.h"
#include "tests/transport_ib/guest_pair.h"
#include "transport/device_memory.h"

namespace rondo {
namespace {

constexpr std::uint64_t kMegabyte = 1024 * 1024;
const IbOptions kByAddress{.device_memory = DeviceMemoryChoice::kPeerMemory};

// Byte i of these pages is byte i of the side's stream.
class DevicePages {
 public:
  DevicePages(Side& side, std::size_t bytes) : bytes_(bytes) {
    at_ = static_cast<std::byte*>(
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
    REQUIRE(at_ != MAP_FAILED);
    for (std::size_t i = 0; i < bytes; ++i) at_[i] = Pattern(side.rank, i);
    Register(side, {{0, bytes}});
    REQUIRE(mprotect(at_, bytes, PROT_NONE) == 0);
  }
  ~DevicePages() {
    registrations_.clear();
    munmap(at_, bytes_);
  }
  DevicePages(const DevicePages&) = delete;

  // Replaces the registrations by one registration for each of these parts.
  void Register(Side& side, const std::vector<std::pair<std::size_t, std::size_t>>& parts) {
    REQUIRE(mprotect(at_, bytes_, PROT_READ | PROT_WRITE) == 0);
    registrations_.clear();
    for (const auto& [begin, end] : parts) {
      auto made = RegisterDevice(*side.transport, {.bytes = At(begin, end), .device = "GPU 0"});
      REQUIRE_MESSAGE(made, made.error().ToString());
      CHECK((*made)->way() == DeviceMemoryWay::kPeerMemory);
      registrations_.push_back(std::move(*made));
    }
    REQUIRE(mprotect(at_, bytes_, PROT_NONE) == 0);
  }
  Bytes At(std::size_t begin, std::size_t end) const { return {at_ + begin, end - begin}; }

 private:
  const std::size_t bytes_;
  std::byte* at_ = nullptr;
  std::vector<std::unique_ptr<DeviceRegistration>> registrations_;
};

// Makes one call of Write with `header` bytes of host memory and the next `body` bytes of device memory.
void Send(Side& side, const DevicePages& pages, std::size_t header, std::size_t body) {
  std::vector<std::byte> host(header);
  for (std::size_t i = 0; i < header; ++i) host[i] = Pattern(side.rank, side.sent + i);
  const std::array<Bytes, 2> pieces{Bytes(host), pages.At(side.sent + header, side.sent + header + body)};
  side.sent += side.lane->Write(pieces);
  REQUIRE_MESSAGE(side.lane->state() == LaneState::kOpen,
                  (side.lane->failure() == nullptr ? "ended" : side.lane->failure()->ToString()));
}

bool Arrived(Pair& pair, std::uint64_t bytes) {
  pair[1].Read(300'000);
  return pair[1].read == bytes && pair[0].lane->released() == pair[0].lane->accepted();
}

TEST_CASE("where no way works the answer names memory, device and both reasons, whatever descriptor it is given") {
  Pair pair({"rxe0+rxe1", "rxe1"}, false);
  const Fd buffer(memfd_create("dma-buf", MFD_CLOEXEC));
  std::vector<std::byte> memory(100'000);
  const auto answer =
      RegisterDevice(*pair[0].transport, {.bytes = memory,
                                          .dma_buf_fd = buffer.get(),
                                          .dma_buf_offset = reinterpret_cast<std::uintptr_t>(memory.data()) % 4096,
                                          .device = "GPU 0"});
  REQUIRE(!answer);
  CAPTURE(answer.error().message());
  CHECK(answer.error().code() == ErrorCode::kUnsupported);
  for (const char* words :
       {"100000 bytes of GPU 0", "pinned host memory",
        "by dma-buf: rxe0:1 does not accept a dma-buf (Operation not supported)", "rxe1:1 does not accept a dma-buf",
        "by peer memory: neither nvidia_peermem nor nv_peer_mem is loaded"})
    CHECK_MESSAGE(answer.error().message().find(words) != std::string::npos, words);
}

TEST_CASE("a dma-buf that is to be taken all the same is refused by the adapter, by name") {
  Pair pair({"rxe0", "rxe1"}, false, 64 * 1024, {.device_memory = DeviceMemoryChoice::kDmaBuf});
  const Fd buffer(memfd_create("dma-buf", MFD_CLOEXEC));
  std::vector<std::byte> memory(100'000);
  const auto answer =
      RegisterDevice(*pair[0].transport, {.bytes = memory,
                                          .dma_buf_fd = buffer.get(),
                                          .dma_buf_offset = reinterpret_cast<std::uintptr_t>(memory.data()) % 4096,
                                          .device = "GPU 0"});
  REQUIRE(!answer);
  CAPTURE(answer.error().message());
  CHECK(answer.error().code() == ErrorCode::kUnsupported);
  CHECK(answer.error().message().find("by dma-buf: rxe0:1 refuses it (Operation not supported)") != std::string::npos);
}

TEST_CASE("pieces of any size, with and without a header, arrive as they are and no CPU here reads them") {
  for (const std::size_t ring : {std::size_t{4096}, std::size_t{64 * 1024}, kMegabyte}) {
    CAPTURE(ring);
    Pair pair({"rxe0", "rxe1"}, false, ring, kByAddress);
    REQUIRE(pair[0].lane->sends_device_memory());
    const std::size_t all = 3 * kMegabyte;
    const DevicePages pages(pair[0], all + kMegabyte);
    Random random(ring);
    // Small sizes come first: sizes that fit into a request, and sizes around a multiple of the page size or around the
    // limit below which host bytes are copied.
    std::vector<std::size_t> sizes{1, 2, 64, 255, 256, 257, 511, 512, 513, 4095, 4096, 4097, 16 * 1024 - 1, 16 * 1024};
    while (pair[0].sent < all) {
      std::size_t size = 1 + random.Below(random.Below(4) == 0 ? 300'000 : 3000);
      if (!sizes.empty()) {
        size = sizes.front();
        sizes.erase(sizes.begin());
      }
      Send(pair[0], pages, random.Below(2) * 64, size);
      pair.Poll();
      pair[1].Read(1 + random.Below(100'000));
    }
    pair.Until([&] { return Arrived(pair, pair[0].sent); });
    CHECK(pair.wrong() == 0);
  }
}

TEST_CASE("a piece may lie in regions side by side, and is sent to the last byte of each") {
  Pair pair({"rxe0", "rxe1"}, false, kMegabyte, kByAddress);
  DevicePages pages(pair[0], kMegabyte);
  pages.Register(pair[0], {{0, 4096}, {4096, 4097}, {4097, 100'000}, {100'000, kMegabyte}});
  while (pair[0].sent < 500'000) {
    Send(pair[0], pages, 0, 500'000 - pair[0].sent);
    pair.Poll();
    pair[1].Read(100'000);
  }
  pair.Until([&] { return Arrived(pair, 500'000); });
  CHECK(pair.wrong() == 0);
}

TEST_CASE("more small pieces than can be in flight at a time wait, and an owner that sleeps then is woken") {
  Pair pair({"rxe0", "rxe1"}, false, kMegabyte, kByAddress);
  Side& side = pair[0];
  const DevicePages pages(side, kMegabyte);
  int shorts = 0;
  for (int round = 0; round < 100; ++round) {
    CAPTURE(round);
    const std::uint64_t until = side.sent + 200 * 10;
    while (side.sent < until) {
      std::vector<Bytes> pieces;
      for (std::uint64_t at = side.sent; at < until; at += 10) pieces.push_back(pages.At(at, std::min(at + 10, until)));
      side.sent += side.lane->Write(pieces);
      if (side.sent == until) break;
      ++shorts;
      pair[1].endpoint->Poll(SteadyClock().Now());  // returns the credit for the received bytes
      // Peek takes the event, but the writer that waits for room does not see it. So the next Arm must report it.
      if (round % 2 == 1) {
        poll(nullptr, 0, 1);
        side.lane->Peek(1);
        CHECK(side.lane->released() <= side.lane->accepted());
      }
      if (!side.endpoint->Arm()) {
        pollfd news{.fd = side.endpoint->wait_fd(), .events = POLLIN, .revents = 0};
        REQUIRE(poll(&news, 1, 5000) == 1);
      }
      side.endpoint->Disarm();
      side.endpoint->Poll(SteadyClock().Now());
    }
    pair.Until([&] { return Arrived(pair, side.sent); });
  }
  CHECK(shorts > 0);  // 200 pieces are more than the number that may be in flight without a copy
  CHECK(pair.wrong() == 0);
}

TEST_CASE("wherever its port goes down, it goes on from the device by the next port") {
  Random random(20261126);
  for (int round = 0; round < 3; ++round) {
    CAPTURE(round);
    {
      Pair pair({"rxe0+rxe2", "rxe1+rxe2"}, true, kMegabyte, kByAddress);
      const std::size_t all = 2 * kMegabyte;
      const DevicePages pages(pair[0], all + kMegabyte);
      const std::uint64_t before = 1 + random.Below(kMegabyte);
      const auto send = [&](std::uint64_t until) {
        pair.Until([&] {
          if (pair[0].sent < until) Send(pair[0], pages, random.Below(2) * 64, 1 + random.Below(100'000));
          pair[1].Read(100'000);
          return pair[0].sent >= until;
        });
      };
      send(before);
      SetLink(false);
      send(all);
      pair.Until([&] { return Arrived(pair, pair[0].sent); });
      CHECK(pair.wrong() == 0);
      CHECK(pair[0].endpoint->DescribePeer(1).find("ib rxe2:1") == 0);
      CHECK(pair[0].lane->sends_device_memory());
    }
    SetLink(true);
  }
}

TEST_CASE("where no port is left the lane says that memory of a device cannot go on, and reads none of it") {
  {
    Pair pair({"rxe0", "rxe1"}, true, kMegabyte, kByAddress);
    const DevicePages pages(pair[0], kMegabyte);
    SetLink(false);
    Send(pair[0], pages, 64, 300'000);
    pair.Until([&] { return pair[0].lane->state() == LaneState::kFailed; });
    const Error& error = *pair[0].lane->failure();
    CAPTURE(error.ToString());
    CHECK(error.code() == ErrorCode::kConnectionReset);
    CHECK(error.message().find("RDMA by rxe") != std::string::npos);
    CHECK(error.message().find("memory of a device") != std::string::npos);
    CHECK(error.message().find("pinned host memory") != std::string::npos);
    CHECK(!pair[0].lane->sends_device_memory());
  }
  SetLink(true);
}

TEST_CASE("where nothing of a device was under way the lane goes on, and fails only by being given such") {
  {
    Pair pair({"rxe0", "rxe1"}, true, kMegabyte, kByAddress);
    const DevicePages pages(pair[0], kMegabyte);
    SetLink(false);
    pair.Exchange(300'000, 300'000, 10'000);  // sent from host memory
    CHECK(pair[0].endpoint->TransportTo(1) == "tcp");
    CHECK(!pair[0].lane->sends_device_memory());
    const Bytes piece = pages.At(300'000, 400'000);
    CHECK(pair[0].lane->Write(std::span(&piece, 1)) == 0);
    REQUIRE(pair[0].lane->state() == LaneState::kFailed);
    CHECK(pair[0].lane->failure()->code() == ErrorCode::kUnsupported);
    CHECK(pair[0].lane->failure()->message().find("pinned host memory") != std::string::npos);
    CHECK(pair.wrong() == 0);
  }
  SetLink(true);
}

TEST_CASE("after a revocation no device reads it: it can be given back at once") {
  for (int round = 0; round < 5; ++round) {
    Pair pair({"rxe0", "rxe1"}, false, kMegabyte, kByAddress);
    {
      const DevicePages pages(pair[0], kMegabyte);
      Send(pair[0], pages, 64, 500'000);
      for (int polls = 0; polls < round; ++polls) pair.Poll();
      pair[0].lane->Revoke();
    }
    pair.Until([&] {
      pair[1].Read(300'000);
      return pair[1].lane->state() != LaneState::kOpen;
    });
    CHECK(pair.wrong() == 0);
  }
}

}  // namespace
}  // namespace rondo
