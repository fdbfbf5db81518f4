// Tests the parsing of `rondo run --hosts`, and which ranks each host gets. tests/launchers/ssh runs ranks on several
// hosts.
#include "tools/run/host_list.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <string>
#include <vector>

namespace rondo {
namespace host_list_test {

// Returns for example "*a 0 2, b 2 1": host, first rank, number of ranks. "*" marks the launcher's host.
std::string Places(const std::string& hosts, int ranks) {
  const auto parsed = ParseHosts(hosts);
  REQUIRE(parsed);
  const auto places = PlaceRanks(*parsed, ranks, "me");
  if (!places) return places.error().message();
  std::string text;
  for (const PlacedHost& place : *places) {
    text += fmt::format("{}{}{} {} {}", text.empty() ? "" : ", ", place.here ? "*" : "", place.host.ToString(),
                        place.ranks.first, place.ranks.count);
  }
  return text;
}

TEST_CASE("A host has a name or an address, perhaps a user and a number of ranks") {
  CHECK(ParseHosts("a") == std::vector<HostEntry>{{"", "a", {}}});
  CHECK(ParseHosts("a-1.example:4,me@b,10.0.0.7:1") ==
        std::vector<HostEntry>{{"", "a-1.example", 4}, {"me", "b", {}}, {"", "10.0.0.7", 1}});
  CHECK(ParseHosts("[fe80::1%eth0]:2,me@[::2]") == std::vector<HostEntry>{{"", "fe80::1%eth0", 2}, {"me", "::2", {}}});
  CHECK(HostEntry{"me", "::2", {}}.ToString() == "me@::2");
}

TEST_CASE("A wrong host is named, and what was expected") {
  for (const auto& [text, says] : std::vector<std::pair<std::string, std::string>>{
           {"", "'' has no host"},
           {"a,,b", "'' has no host"},
           {"a,", "'' has no host"},
           {":2", "':2' has no host"},
           {"a:", "'a:' has '' instead of a number"},
           {"a:0", "'a:0' has '0' instead of a number"},
           {"a:-1", "has '-1' instead of a number"},
           {"a:2x", "has '2x' instead of a number"},
           {"a:99999999999", "has '99999999999' instead of a number"},
           {"fe80::1", "'fe80::1' is an IPv6 address without brackets"},
           {"a:2:3", "without brackets"},
           {"[fe80::1", "has no IPv6 address in brackets"},
           {"[a]", "has no IPv6 address in brackets"},
           {"[]:2", "has no IPv6 address in brackets"},
           {"[::1]2", "has other text than :RANKS after the bracket"},
           {"@a", "has an invalid user"},
           {"a b", "has an invalid host"},
           {"a;reboot", "has an invalid host"},
           // ssh would interpret these as options.
           {"-oProxyCommand=x", "has an invalid host"},
           {"-l@a", "has an invalid user"},
       }) {
    const std::string wrong = text;
    CAPTURE(wrong);
    const auto hosts = ParseHosts(wrong);
    REQUIRE(!hosts);
    CHECK(hosts.error().code() == ErrorCode::kInvalidArgument);
    CHECK(hosts.error().message().find("expected HOST[:RANKS]") != std::string::npos);
    CHECK(hosts.error().message().find(says) != std::string::npos);
  }
}

TEST_CASE("A host that is named twice would have two ranks of one local number") {
  CHECK(ParseHosts("a:1,b,a:2").error().message() == "the list names 'a' twice; give a:RANKS once");
  CHECK(!ParseHosts("a,me@a"));
  CHECK(Places("localhost:1,127.0.0.1:1", 2) == "'localhost' and '127.0.0.1' are both this host");
  CHECK(Places("b,me,[::1]", 3) == "'me' and '::1' are both this host");
}

TEST_CASE("Without numbers the ranks are spread as evenly as can be, the first hosts taking more") {
  CHECK(Places("a,b", 4) == "a 0 2, b 2 2");
  CHECK(Places("a,b,c", 8) == "a 0 3, b 3 3, c 6 2");
  CHECK(Places("a,b,c", 2) == "a 0 1, b 1 1");
  CHECK(Places("a", 5) == "a 0 5");
}

TEST_CASE("With numbers the hosts are filled in their order, and there must be room") {
  CHECK(Places("a:2,b:4", 6) == "a 0 2, b 2 4");
  CHECK(Places("a:2,b:4", 3) == "a 0 2, b 2 1");
  CHECK(Places("a:2,b:4", 2) == "a 0 2");
  CHECK(Places("a:2,b:4", 7) == "the list has room for 6 ranks, but -N asks for 7");
}

TEST_CASE("Where only some have numbers the others share what is left") {
  CHECK(Places("a,b:4,c", 8) == "a 0 2, b 2 4, c 6 2");
  CHECK(Places("a,b:4,c", 5) == "a 0 1, b 1 4");
  CHECK(Places("a,b:4", 3) == "b 0 3");
}

TEST_CASE("This host is known by its own name and by those of the loopback, but not as another user") {
  CHECK(Places("localhost,a", 2) == "*localhost 0 1, a 1 1");
  CHECK(Places("a,127.0.0.2", 2) == "a 0 1, *127.0.0.2 1 1");
  CHECK(Places("me,a", 2) == "*me 0 1, a 1 1");
  CHECK(Places("you@localhost,a", 2) == "you@localhost 0 1, a 1 1");
}

}  // namespace host_list_test
}  // namespace rondo
