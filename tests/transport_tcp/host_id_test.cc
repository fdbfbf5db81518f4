// Tests how a process identifies its host, and the result if the machine does not provide an identifier.
#include <doctest/doctest.h>

#include <string>

#include "tests/support/file_tree.h"
#include "transport/tcp/tcp.h"

namespace rondo {
namespace host_id_test {

TEST_CASE("a process knows its host by the kernel's boot and by its network, and says which file it misses") {
  testing::FileTree tree;
  const auto why = [&] {
    const auto host = FindHostId(tree.root());
    return host ? "known" : host.error().ToString();
  };
  CHECK(why() ==
        "unsupported: this process cannot tell which host it is on: /proc/sys/kernel/random/boot_id: No such file or "
        "directory (is /proc mounted?)");
  tree.File("/proc/sys/kernel/random/boot_id");
  CHECK(why().find("/proc/sys/kernel/random/boot_id: it is empty") != std::string::npos);
  tree.File("/proc/sys/kernel/random/boot_id", "6f0c");
  CHECK(why().find("/proc/self/ns/net: No such file or directory") != std::string::npos);
  tree.File("/proc/self/ns/net");
  REQUIRE(why() == "known");
  CHECK(FindHostId(tree.root())->starts_with("6f0c/net:"));
}

TEST_CASE("why a peer does not count as being on this host is said where it is not simply another machine") {
  CHECK(WhyNotOneHost("a/net:1", "a/net:1").empty());
  CHECK(WhyNotOneHost("a/net:1", "b/net:1").empty());
  CHECK(WhyNotOneHost("a/net:1", "a/net:2") == "both ranks are on one machine, but in network namespaces of their own");
  CHECK(WhyNotOneHost("a/net:1", "") == "that rank cannot tell which host it is on (is /proc mounted there?)");
  CHECK(!WhyNotOneHost("", "a/net:1").empty());
}

}  // namespace host_id_test
}  // namespace rondo
