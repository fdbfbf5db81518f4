// Tests reading memory of other processes directly, and every case in which this is impossible.
#include "transport/shm/process_memory.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <vector>

namespace rondo::shm {
namespace process_memory_test {

constexpr std::size_t kPage = 4096;

Nonce SomeNonce(int seed) {
  Nonce nonce;
  for (std::size_t i = 0; i < nonce.size(); ++i) nonce[i] = static_cast<std::byte>(seed + static_cast<int>(i));
  return nonce;
}

std::uint64_t AddressOf(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

// Pages of this process. The destructor unmaps them.
class Pages {
 public:
  Pages(std::size_t count, int protection)
      : bytes_(count * kPage), memory_(mmap(nullptr, bytes_, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    REQUIRE(memory_ != MAP_FAILED);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() { munmap(memory_, bytes_); }
  MutableBytes bytes() const { return {static_cast<std::byte*>(memory_), bytes_}; }

 private:
  const std::size_t bytes_;
  void* const memory_;
};

// A child process with a copy of this process's memory. The destructor ends the child.
class Child {
 public:
  Child() : process_(fork()) {
    REQUIRE(process_ >= 0);
    while (process_ == 0) pause();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { End(); }
  void End() {
    if (ended_) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    ended_ = true;
  }
  std::int32_t process() const { return process_; }

 private:
  const pid_t process_;
  bool ended_ = false;
};

TEST_CASE("a nonce is found in the process that has it, and in no other") {
  Nonce nonce = SomeNonce(1);
  CmaProbe probe = CmaProbeOf(nonce);
  CHECK(CheckCmaProbe(probe));
  nonce = SomeNonce(2);
  Child child;
  nonce = SomeNonce(1);
  // The probe now names another process, as if its process number were from another pid namespace.
  probe.process = child.process();
  const Status found = CheckCmaProbe(probe);
  REQUIRE(!found);
  CHECK(found.error().code() == ErrorCode::kResource);
  CHECK(found.error().message().find("does not belong to the peer") != std::string::npos);
  probe.nonce = SomeNonce(2);
  CHECK(CheckCmaProbe(probe));
  CHECK(!CheckCmaProbe(CmaProbe{}));
}

TEST_CASE("all bytes come, from any address to any address") {
  std::vector<std::byte> data(3 * kPage + 7);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7);
  Child child;
  const std::vector<std::byte> expected = data;
  std::fill(data.begin(), data.end(), std::byte{});
  std::vector<std::byte> into(data.size());
  for (const std::size_t at : {std::size_t{0}, std::size_t{1}, kPage - 1}) {
    const MutableBytes here(into.data() + at, into.size() - at);
    REQUIRE(ReadMemoryOf(child.process(), AddressOf(data.data() + at), here));
    CHECK(std::equal(here.begin(), here.end(), expected.begin() + static_cast<std::ptrdiff_t>(at)));
  }
  CHECK(ReadMemoryOf(child.process(), 0, {}));
}

TEST_CASE("an ended process is distinguished from unreadable memory, and that from a bad destination") {
  Nonce nonce = SomeNonce(3);
  Child child;
  std::vector<std::byte> into(2 * kPage);
  {
    const Pages closed(1, PROT_NONE);
    const Status read = ReadMemoryOf(getpid(), AddressOf(closed.bytes().data()), MutableBytes(into).first(kPage));
    REQUIRE(!read);
    CHECK(read.error().code() == ErrorCode::kResource);
    CHECK(read.error().message().find("4096 bytes of memory") != std::string::npos);
  }
  {
    const Pages two(2, PROT_READ | PROT_WRITE);  // only the first half is readable
    REQUIRE(mprotect(two.bytes().data() + kPage, kPage, PROT_NONE) == 0);
    const Status read = ReadMemoryOf(getpid(), AddressOf(two.bytes().data()), into);
    REQUIRE(!read);
    CHECK(read.error().code() == ErrorCode::kResource);
  }
  {
    const Pages fixed(1, PROT_READ);
    const Status read = ReadMemoryOf(child.process(), AddressOf(nonce.data()), fixed.bytes().first(nonce.size()));
    REQUIRE(!read);
    CHECK(read.error().code() == ErrorCode::kInvalidArgument);
    CHECK(read.error().message().find("cannot be written") != std::string::npos);
  }
  child.End();
  const Status read = ReadMemoryOf(child.process(), AddressOf(nonce.data()), MutableBytes(into).first(nonce.size()));
  REQUIRE(!read);
  CHECK(read.error().code() == ErrorCode::kPeerLost);
}

TEST_CASE("whether memory can be read is seen at its ends") {
  const Pages three(3, PROT_READ | PROT_WRITE);
  CHECK(CanBeRead(three.bytes()));
  CHECK(CanBeRead({}));
  REQUIRE(mprotect(three.bytes().data() + 2 * kPage, kPage, PROT_NONE) == 0);
  CHECK(!CanBeRead(three.bytes()));
  CHECK(CanBeRead(three.bytes().first(2 * kPage)));
  CHECK(!CanBeRead(three.bytes().subspan(2 * kPage)));
}

}  // namespace process_memory_test
}  // namespace rondo::shm
