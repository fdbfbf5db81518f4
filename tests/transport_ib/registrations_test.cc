// Tests which registered region is found for given bytes.
#include "transport/ib/registrations.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <tuple>
#include <vector>

#include "base/random.h"
#include "tests/support/threads.h"

namespace rondo::ib {
namespace registrations_test {

std::array<std::byte, 1000> memory;  // provides addresses for regions; never accessed

Bytes At(std::size_t begin, std::size_t end) { return Bytes(memory).subspan(begin, end - begin); }

struct Table {
  std::shared_ptr<Registrations> all = std::make_shared<Registrations>();
  RegistrationsView view{all};
};

TEST_CASE("a region is found for bytes that lie in it, to the last, until it is removed") {
  Table table;
  CHECK(table.view.Find(At(100, 200)) == nullptr);
  const Region region{.memory = At(100, 200), .keys = {7, 8}};
  table.all->Add(region);
  for (const auto& [begin, end] : {std::pair{100, 200}, {100, 101}, {199, 200}, {150, 150}, {200, 200}})
    CHECK(table.view.Find(At(static_cast<std::size_t>(begin), static_cast<std::size_t>(end))) == &region);
  for (const auto& [begin, end] :
       {std::pair{99, 200}, {100, 201}, {50, 60}, {99, 101}, {199, 201}, {300, 400}, {0, 1000}})
    CHECK(table.view.Find(At(static_cast<std::size_t>(begin), static_cast<std::size_t>(end))) == nullptr);
  table.all->Remove(region);
  CHECK(table.view.Find(At(100, 200)) == nullptr);
}

TEST_CASE("bytes that lie in two regions side by side lie in none") {
  Table table;
  const Region left{.memory = At(100, 200), .keys = {}}, right{.memory = At(200, 300), .keys = {}};
  table.all->Add(right);
  table.all->Add(left);
  CHECK(table.view.Find(At(150, 200)) == &left);
  CHECK(table.view.Find(At(200, 250)) == &right);
  CHECK(table.view.Find(At(199, 201)) == nullptr);
}

TEST_CASE("of regions that overlap, also wholly, one that covers the bytes is found if there is one") {
  Random random(5);
  for (int round = 0; round < 200; ++round) {
    Table table;
    std::vector<Region> regions(1 + random.Below(8));
    for (Region& region : regions) {
      const std::size_t begin = random.Below(990);
      region.memory = At(begin, begin + 1 + random.Below(std::min<std::size_t>(1000 - begin, 300)));
      table.all->Add(region);
    }
    for (int i = 0; i < 50; ++i) {
      if (i == 25) {
        table.all->Remove(regions.back());
        regions.pop_back();
      }
      const std::size_t begin = random.Below(990);
      const Bytes wanted = At(begin, begin + 1 + random.Below(std::min<std::size_t>(1000 - begin, 100)));
      const auto covers = [&](const Region& region) {
        return region.memory.data() <= wanted.data() &&
               wanted.data() + wanted.size() <= region.memory.data() + region.memory.size();
      };
      const Region* const found = table.view.Find(wanted);
      REQUIRE((found != nullptr) == std::any_of(regions.begin(), regions.end(), covers));
      if (found != nullptr) REQUIRE(covers(*found));
    }
  }
}

TEST_CASE("a device's region is found for whatever bytes begin in it, and never as memory of the host") {
  Table table;
  CHECK(!table.view.any_of_device());
  CHECK(!table.view.IsOfDevice(At(0, 1000)));
  const Region left{.memory = At(100, 200), .keys = {1}, .of_device = true};
  const Region right{.memory = At(200, 300), .keys = {2}, .of_device = true};
  const Region host{.memory = At(600, 700), .keys = {3}};
  for (const Region* region : {&host, &right, &left}) table.all->Add(*region);
  CHECK(table.view.any_of_device());
  CHECK(table.view.Find(At(100, 200)) == nullptr);
  CHECK(table.view.Find(At(150, 160)) == nullptr);
  CHECK(table.view.Find(At(600, 700)) == &host);
  CHECK(!table.view.IsOfDevice(At(600, 700)));
  CHECK(table.view.FindOfDevice(At(600, 700)).region == nullptr);
  for (const auto& [begin, end, region, bytes] : {std::tuple{100, 200, &left, 100},
                                                  {150, 151, &left, 1},
                                                  {199, 300, &left, 1},
                                                  {100, 900, &left, 100},
                                                  {200, 210, &right, 10},
                                                  {299, 300, &right, 1}}) {
    const auto first = static_cast<std::size_t>(begin), beyond = static_cast<std::size_t>(end);
    CAPTURE(first);
    CAPTURE(beyond);
    const Bytes memory_there = At(first, beyond);
    CHECK(table.view.IsOfDevice(memory_there));
    const RegistrationsView::Front front = table.view.FindOfDevice(memory_there);
    CHECK(front.region == region);
    CHECK(front.bytes == static_cast<std::size_t>(bytes));
  }
  // One byte of device memory is enough to make the range device memory.
  CHECK(table.view.IsOfDevice(At(50, 101)));
  CHECK(table.view.IsOfDevice(At(0, 1000)));
  CHECK(!table.view.IsOfDevice(At(50, 100)));
  CHECK(!table.view.IsOfDevice(At(300, 400)));
  CHECK(!table.view.IsOfDevice(At(150, 150)));
  CHECK(table.view.FindOfDevice(At(50, 101)).region == nullptr);
  table.all->Remove(left);
  table.all->Remove(right);
  CHECK(!table.view.any_of_device());
  CHECK(!table.view.IsOfDevice(At(100, 300)));
  CHECK(table.view.Find(At(600, 700)) == &host);
}

TEST_CASE("views on other threads find what stays, whatever comes and goes") {
  const auto all = std::make_shared<Registrations>();
  const Region stays{.memory = At(400, 600), .keys = {1}};
  all->Add(stays);
  std::atomic<bool> stop{false};
  std::atomic<int> missed{0};
  Threads views(2, [&](int) {
    RegistrationsView view(all);
    while (!stop) missed += view.Find(At(450, 500)) != &stays;
  });
  for (int i = 0; i < 2000; ++i) {
    const Region one{.memory = At(0, 100), .keys = {}}, other{.memory = At(700, 800), .keys = {}};
    all->Add(one);
    all->Add(other);
    all->Remove(one);
    all->Remove(other);
  }
  stop = true;
  views.Join();
  CHECK(missed == 0);
}

}  // namespace registrations_test
}  // namespace rondo::ib
