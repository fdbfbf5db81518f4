// Lists of CPUs in Linux's format.
#include "collectives/cpu_list.h"

#include <doctest/doctest.h>

namespace rondo {
namespace cpu_list_test {

TEST_CASE("a list of CPUs is printed in ranges and read back") {
  std::vector<bool> cpus(12);
  for (const int cpu : {0, 1, 2, 5, 10, 11}) cpus[static_cast<std::size_t>(cpu)] = true;
  CHECK(PrintCpuList(cpus) == "0-2,5,10-11");
  CHECK(ParseCpuList("0-2,5,10-11") == cpus);
  CHECK(PrintCpuList({}).empty());
  CHECK(ParseCpuList("").empty());
}

TEST_CASE("ranks bound to cores of their own have them all together, ranks that share them have them once") {
  CHECK(CountCpus({"0", "1", "2-3"}) == 4);
  CHECK(CountCpus({"0-1", "0-1", "0-1"}) == 2);
  CHECK(CountCpus({}) == 0);
}

TEST_CASE("what is no list is nothing, and takes no memory") {
  CHECK(CountCpus({"x", "3-1", "-", "1-99999999999", ",,"}) == 0);
}

TEST_CASE("this process may run somewhere") { CHECK(CountCpus({UsableCpus()}) >= 1); }

}  // namespace cpu_list_test
}  // namespace rondo
