// Tests that memory of a GPU is registered with all adapters by a method that works. If no method works, nothing stays
// registered, and the error gives the reasons. The adapters are fakes (fake_adapters.h), because soft-RoCE does not
// accept such memory. guest_device_memory.cc, a test in a virtual machine, checks that soft-RoCE refuses such memory,
// and that the CPU never reads registered memory that lanes send.
#include "transport/device_memory.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "base/net/fd.h"
#include "tests/support/fault_row.h"
#include "tests/support/file_tree.h"
#include "tests/transport_ib/fake_adapters.h"
#include "transport/ib/memory.h"

namespace rondo::ib {
namespace device_memory_test {

constexpr std::size_t kPage = 4096;

bool Has(const Error& error, const std::string& words) { return error.message().find(words) != std::string::npos; }

// Addresses of a GPU. Nothing is mapped at them, so any access crashes.
class GpuMemory {
 public:
  explicit GpuMemory(std::size_t bytes = 16 * kPage)
      : bytes_(bytes), at_(mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    REQUIRE(at_ != MAP_FAILED);
  }
  ~GpuMemory() { munmap(at_, bytes_); }
  GpuMemory(const GpuMemory&) = delete;
  Bytes bytes() const { return {static_cast<const std::byte*>(at_), bytes_}; }
  std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(at_); }

 private:
  const std::size_t bytes_;
  void* const at_;
};

// A descriptor in place of one that a driver exports. The fakes use it only as a number.
Fd Export() { return Fd(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

struct Answer {
  std::shared_ptr<Registrations> all = std::make_shared<Registrations>();
  RegistrationsView view{all};
  Result<std::unique_ptr<DeviceRegistration>> registration = Fail(ErrorCode::kInternal, "not asked");
};

Answer Ask(const FakeMachine& machine, const DeviceMemory& memory, bool module_loaded,
           DeviceMemoryChoice choice = DeviceMemoryChoice::kAuto) {
  testing::FileTree tree;
  if (module_loaded) tree.File("/sys/module/nvidia_peermem/refcnt", "0");
  Answer answer;
  answer.registration =
      RegisterOfDevice(machine.devices, answer.all,
                       DecideDeviceMemory(FindDeviceMemoryFacts(machine.devices, tree.root()), choice), memory);
  return answer;
}

TEST_CASE("adapters that take it as dma-buf are given its descriptor, its offset, and its address to name it by") {
  FakeMachine machine({{.name = "mlx5_0", .dma_buf_refusal = 0}, {.name = "mlx5_1", .dma_buf_refusal = 0}});
  const GpuMemory gpu;
  const Fd exported = Export();
  const Answer answer = Ask(machine,
                            {.bytes = gpu.bytes().subspan(100, 9000),
                             .dma_buf_fd = exported.get(),
                             .dma_buf_offset = 3 * kPage + 100,
                             .device = "GPU 0"},
                            true);
  REQUIRE_MESSAGE(answer.registration, answer.registration.error().ToString());
  CHECK((*answer.registration)->way() == DeviceMemoryWay::kDmaBuf);
  REQUIRE(machine.registrations.size() == 2);
  for (const FakeMachine::Registration& registration : machine.registrations) {
    CHECK(registration.dma_buf);
    CHECK(registration.fd == exported.get());
    CHECK(registration.offset == 3 * kPage + 100);
    CHECK(registration.address == gpu.address() + 100);
    CHECK(registration.bytes == 9000);
    CHECK(registration.access == 0);  // read access only
  }
}

TEST_CASE("lanes find it as a device's, with a key for each adapter, and never as memory of the host") {
  FakeMachine machine({{.name = "mlx5_0", .dma_buf_refusal = 0}, {.name = "mlx5_1", .dma_buf_refusal = 0}});
  const GpuMemory gpu;
  const Fd exported = Export();
  Answer answer = Ask(machine, {.bytes = gpu.bytes(), .dma_buf_fd = exported.get(), .device = "GPU 0"}, false);
  REQUIRE(answer.registration);
  CHECK(answer.view.Find(gpu.bytes()) == nullptr);
  const RegistrationsView::Front front = answer.view.FindOfDevice(gpu.bytes().subspan(5, 1));
  REQUIRE(front.region != nullptr);
  CHECK(front.region->keys == std::vector<std::uint32_t>{machine.registrations[0].key, machine.registrations[1].key});
  answer.registration->reset();
  CHECK(!answer.view.IsOfDevice(gpu.bytes()));
}

TEST_CASE("what is registered ends once, and the descriptor stays the caller's") {
  FakeMachine machine({{.name = "mlx5_0", .dma_buf_refusal = 0}});
  const GpuMemory gpu;
  Fd exported = Export();
  Answer answer = Ask(machine, {.bytes = gpu.bytes(), .dma_buf_fd = exported.get(), .device = "GPU 0"}, false);
  REQUIRE(answer.registration);
  CHECK(fcntl(exported.get(), F_GETFD) >= 0);
  CHECK(machine.registered_now() == 1);
  answer.registration->reset();
  CHECK(machine.registered_now() == 0);
  CHECK(machine.given_back_twice == 0);
  CHECK(fcntl(exported.get(), F_GETFD) >= 0);
}

TEST_CASE("where the library, an adapter or the driver has no dma-buf it is known by its address") {
  const GpuMemory gpu;
  const Fd exported = Export();
  const DeviceMemory memory{.bytes = gpu.bytes(), .dma_buf_fd = exported.get(), .device = "GPU 0"};
  const auto by_address = [&](FakeMachine& machine, const DeviceMemory& of) {
    const Answer answer = Ask(machine, of, true);
    REQUIRE_MESSAGE(answer.registration, answer.registration.error().ToString());
    CHECK((*answer.registration)->way() == DeviceMemoryWay::kPeerMemory);
    REQUIRE(!machine.registrations.empty());
    CHECK(!machine.registrations.back().dma_buf);
    CHECK(machine.registrations.back().address == gpu.address());
    CHECK(machine.registrations.back().bytes == gpu.bytes().size());
  };
  {
    FakeMachine old({{.name = "mlx5_0", .peer_memory_refusal = 0}}, false);
    by_address(old, memory);
  }
  {
    FakeMachine refuses({{.name = "mlx5_0", .dma_buf_refusal = EOPNOTSUPP, .peer_memory_refusal = 0}});
    by_address(refuses, memory);
  }
  {
    // An adapter that accepts dma-bufs, but not the dma-buf of this test.
    FakeMachine particular(
        {{.name = "mlx5_0", .dma_buf_refusal = 0, .own_buffer_refusal = EINVAL, .peer_memory_refusal = 0}});
    by_address(particular, memory);
  }
  {
    FakeMachine able({{.name = "mlx5_0", .dma_buf_refusal = 0, .peer_memory_refusal = 0}});
    by_address(able, {.bytes = gpu.bytes(), .device = "GPU 0"});
  }
}

TEST_CASE("where neither works the answer is to stage it, with both reasons and what would help") {
  FakeMachine machine({{.name = "mlx5_0", .dma_buf_refusal = EOPNOTSUPP}});
  const GpuMemory gpu;
  const Fd exported = Export();
  const DeviceMemory memory{.bytes = gpu.bytes(), .dma_buf_fd = exported.get(), .device = "GPU 3 (0000:65:00.0)"};
  Answer answer = Ask(machine, memory, true);  // nvidia_peermem is loaded, but does not accept the address
  REQUIRE(!answer.registration);
  const Error& refused = answer.registration.error();
  CAPTURE(refused.message());
  CHECK(refused.code() == ErrorCode::kUnsupported);
  for (const char* words :
       {"65536 bytes of GPU 3 (0000:65:00.0)", "pinned host memory", "by dma-buf: mlx5_0:1 does not accept a dma-buf",
        "Operation not supported", "by peer memory: mlx5_0:1 refuses it (Bad address)"})
    CHECK_MESSAGE(Has(refused, words), words);
  CHECK(machine.registrations.empty());

  answer = Ask(machine, memory, false);
  REQUIRE(!answer.registration);
  CHECK(answer.registration.error().code() == ErrorCode::kUnsupported);
  CHECK(Has(answer.registration.error(), "by peer memory: neither nvidia_peermem nor nv_peer_mem is loaded"));
  CHECK(Has(answer.registration.error(), "modprobe nvidia_peermem"));
}

TEST_CASE("what no adapter is to be asked none is asked") {
  FakeMachine machine({{.name = "mlx5_0", .dma_buf_refusal = 0, .peer_memory_refusal = 0}});
  const GpuMemory gpu;
  const Fd exported = Export();
  const DeviceMemory memory{.bytes = gpu.bytes(), .dma_buf_fd = exported.get(), .device = "GPU 0"};
  const Answer none = Ask(machine, memory, true, DeviceMemoryChoice::kNone);
  REQUIRE(!none.registration);
  CHECK(none.registration.error().code() == ErrorCode::kUnsupported);
  CHECK(machine.registrations.empty());
  const Answer by_address = Ask(machine, memory, false, DeviceMemoryChoice::kPeerMemory);
  REQUIRE(by_address.registration);
  CHECK((*by_address.registration)->way() == DeviceMemoryWay::kPeerMemory);
  // There is no dma-buf, and no other method is allowed.
  CHECK(!Ask(machine, {.bytes = gpu.bytes(), .device = "GPU 0"}, true, DeviceMemoryChoice::kDmaBuf).registration);
}

TEST_CASE("where the second adapter refuses, what the first has registered is given back, and the second is named") {
  const GpuMemory gpu;
  const Fd exported = Export();
  const DeviceMemory memory{.bytes = gpu.bytes(), .dma_buf_fd = exported.get(), .device = "GPU 0"};
  FakeMachine machine({{.name = "mlx5_0", .dma_buf_refusal = 0, .peer_memory_refusal = 0},
                       {.name = "mlx5_1", .dma_buf_refusal = 0, .own_buffer_refusal = EINVAL}});
  Answer answer = Ask(machine, memory, true);
  REQUIRE(!answer.registration);
  CAPTURE(answer.registration.error().message());
  CHECK(Has(answer.registration.error(), "by dma-buf: mlx5_1:1 refuses it (Invalid argument)"));
  CHECK(Has(answer.registration.error(), "by peer memory: mlx5_1:1 refuses it (Bad address)"));
  CHECK(machine.registrations.size() == 2);  // each method was tried with the first adapter
  CHECK(machine.registered_now() == 0);
  CHECK(machine.given_back_twice == 0);
  CHECK(!answer.view.any_of_device());
}

TEST_CASE("no room is another answer than no way") {
  FakeMachine machine({{.name = "mlx5_0", .dma_buf_refusal = 0, .own_buffer_refusal = ENOMEM}});
  const GpuMemory gpu;
  const Fd exported = Export();
  const Answer answer = Ask(machine, {.bytes = gpu.bytes(), .dma_buf_fd = exported.get(), .device = "GPU 0"}, false);
  REQUIRE(!answer.registration);
  CHECK(answer.registration.error().code() == ErrorCode::kResource);
  CHECK(Has(answer.registration.error(), "BAR1"));
  StateFault(28, machine.refused, answer.registration.error(), {.path = "ib"});
}

TEST_CASE("an offset that does not fit the address is a mistake of the caller's") {
  FakeMachine machine({{.name = "mlx5_0", .dma_buf_refusal = 0, .peer_memory_refusal = 0}});
  const GpuMemory gpu;
  const Fd exported = Export();
  const Answer answer =
      Ask(machine, {.bytes = gpu.bytes().subspan(100), .dma_buf_fd = exported.get(), .device = "GPU 0"}, true);
  REQUIRE(!answer.registration);
  CHECK(answer.registration.error().code() == ErrorCode::kInvalidArgument);
  CHECK(machine.registrations.empty());
}

// The flags of the mapping that contains the address, as in proc(5). "dc" means that the mapping is not copied to
// children.
std::string FlagsOfMapping(std::uint64_t address) {
  std::ifstream smaps("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long begin = 0, end = 0;
    char dash = ' ';
    if (std::istringstream(line) >> std::hex >> begin >> dash >> end && dash == '-')
      here = begin <= address && address < end;
    if (here && line.starts_with("VmFlags:")) return line + " ";
  }
  return "";
}

TEST_CASE("forks are no concern of it: its mapping stays as it is, and a child gives nothing back") {
  // The fake libibverbs does not protect registered memory from fork.
  FakeMachine machine({{.name = "mlx5_0", .peer_memory_refusal = 0}});
  REQUIRE(!machine.devices[0]->verbs().forks_safely());
  const GpuMemory gpu;
  const std::string before = FlagsOfMapping(gpu.address());
  if (before.empty()) {
    MESSAGE("SKIP: flags of mappings: this kernel tells none in /proc/self/smaps");
    return;
  }
  Answer answer = Ask(machine, {.bytes = gpu.bytes(), .device = "GPU 0"}, true);
  REQUIRE(answer.registration);
  CHECK(FlagsOfMapping(gpu.address()).find(" dc ") == std::string::npos);
  const pid_t child = fork();
  if (child == 0) {
    answer.registration->reset();
    _exit(machine.registered_now() == 1 ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  answer.registration->reset();
  CHECK(machine.registered_now() == 0);
}

}  // namespace device_memory_test
}  // namespace rondo::ib
