// A profile prints its contents, and is unchanged after writing and reading. Invalid fields are refused by name.
#include "collectives/model/profile.h"

#include <doctest/doctest.h>

#include <string>

namespace rondo {
namespace profile_test {

Profile Sample() {
  Profile profile;
  profile.name = "a \"quoted\" machine";
  profile.provenance = {{"date", "2026-01-02"}, {"cpu", "some"}};
  profile.costs = {.hop_us = 1.5,
                   .oversubscribed_latency_us = 7,
                   .remote_hop_us = 20,
                   .message_us = 0.25,
                   .byte_ns = 0.1,
                   .reduce_byte_ns = 0.05,
                   .wire_gbit_per_s = 100};
  profile.measured = {{Collective::kAllReduce,
                       2,
                       false,
                       {4, 64, 4096},
                       {{Algorithm::kRing, {10, 11, 20}}, {Algorithm::kTree, {8, 9.5, 40}}}},
                      {Collective::kBarrier, 4, true, {0}, {{Algorithm::kDissemination, {12}}}},
                      {Collective::kBarrier, 4, true, {0}, {{Algorithm::kDissemination, {60}}}, 2}};
  return profile;
}

TEST_CASE("what is printed parses back to the same profile") {
  const auto back = ParseProfile(Print(Sample()));
  REQUIRE(back);
  CHECK(*back == Sample());
}

TEST_CASE("the profile that ships parses, and says where it comes from") {
  const auto profile = DefaultProfile();
  CHECK_FALSE(profile->name.empty());
  CHECK_FALSE(profile->provenance.empty());
  CHECK(profile->costs.hop_us > 0);
  CHECK(profile->costs.byte_ns > 0);
  CHECK_MESSAGE(DefaultProfile() == profile, "read once per process, not for every communicator");
}

TEST_CASE("fingerprints are equal for equal profiles and differ by a single time") {
  Profile other = Sample();
  CHECK(Fingerprint(other) == Fingerprint(Sample()));
  other.measured[0].times[1].us[2] += 0.5;
  CHECK(Fingerprint(other) != Fingerprint(Sample()));
}

TEST_CASE("times lie on lines between the logarithms of sizes; outside, constant below and proportional above") {
  const MeasuredWorld world = Sample().measured[0];
  CHECK(*world.Us(Algorithm::kRing, 0) == 10);
  CHECK(*world.Us(Algorithm::kRing, 4) == 10);
  CHECK(*world.Us(Algorithm::kRing, 64) == doctest::Approx(11));
  // 512 is the geometric mean of two measured sizes. So the time is the geometric mean of their times, 9.5 and 40.
  CHECK(*world.Us(Algorithm::kTree, 512) == doctest::Approx(19.494).epsilon(0.001));
  CHECK(*world.Us(Algorithm::kRing, 8192) == doctest::Approx(40));
  CHECK_FALSE(world.Us(Algorithm::kChain, 64));
}

TEST_CASE("what cannot be a profile is refused by the field that is wrong") {
  const auto refused = [](const std::string& from, const std::string& to) {
    std::string text = Print(Sample());
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    const auto parsed = ParseProfile(text);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().code() == ErrorCode::kInvalidArgument);
    return std::string(parsed.error().message());
  };
  CHECK(refused("\"rondo_profile\": 1", "\"rondo_profile\": 2") ==
        "rondo_profile is 2, but this version of Rondo reads 1");
  CHECK(refused("\"hop_us\": 1.5", "\"hop_us\": -1").find("costs.hop_us") != std::string::npos);
  CHECK(refused("\"hop_us\": 1.5", "\"hop\": 1.5").find("hop_us") != std::string::npos);
  CHECK(refused("\"wire_gbit_per_s\": 100", "\"wire_gbit_per_s\": 0").find("wire_gbit_per_s") != std::string::npos);
  CHECK(refused("\"all_reduce\"", "\"all_reduse\"").find("there is no 'all_reduse'") != std::string::npos);
  CHECK(refused("\"tree\"", "\"ring\"").find("us.ring appears twice") != std::string::npos);
  CHECK(refused("\"oversubscribed\": false", "\"oversubscribed\": 1") ==
        "measured.oversubscribed must be true or false, not 1");
  CHECK(refused("\"name\": ", "\"name\": [").find("this is not a profile") != std::string::npos);
  CHECK(refused("\"ring\"", "\"dissemination\"").find("no algorithm 'dissemination'") != std::string::npos);
  CHECK(refused("[4, 64, 4096]", "[4, 4, 4096]").find("'bytes' must be a list of increasing numbers") !=
        std::string::npos);
  CHECK(refused("[10, 11, 20]", "[10, 11]").find("us.ring must have one positive time for each") != std::string::npos);
  CHECK(refused("[10, 11, 20]", "[10, 0, 20]").find("us.ring must have one positive time") != std::string::npos);
  CHECK(refused("\"barrier\", \"ranks\": 4", "\"barrier\", \"ranks\": 0").find("ranks must be within") !=
        std::string::npos);
  CHECK(refused("\"hosts\": 2", "\"hosts\": 3").find("hosts is 3, which does not divide the number of ranks") !=
        std::string::npos);
  CHECK(refused("\"hosts\": 2", "\"hosts\": 0").find("hosts is 0, which does not divide the number of ranks") !=
        std::string::npos);
  CHECK(refused("\"ranks\": 2", "\"ranks\": 4294967298").find("ranks must be within") != std::string::npos);
  CHECK(refused("[4, 64, 4096]", "[-4, 64, 4096]").find("whole numbers, not -4") != std::string::npos);
  CHECK(refused("[4, 64, 4096]", "[4, 64, 1e300]").find("whole numbers, not 1e+300") != std::string::npos);
  CHECK(refused("[10, 11, 20]", "[1e-320, 11, 20]").find("us.ring") != std::string::npos);
  CHECK(refused("\"byte_ns\": 0.1", "\"byte_ns\": 1e308").find("costs.byte_ns") != std::string::npos);
  CHECK(refused("]\n}", "").find("this is not a profile") != std::string::npos);
  CHECK(refused("\"rondo_profile\": 1", "\"rondo_profile\": 4294967297") ==
        "rondo_profile is 4294967297, but this version of Rondo reads 1");
  CHECK(refused("\"rondo_profile\": 1", "\"rondo_profile\": 1.5") == "rondo_profile must be a whole number, not 1.5");
  CHECK(refused("\"ranks\": 2", "\"ranks\": 2.5") == "measured.ranks must be a whole number, not 2.5");
  CHECK(refused("\"ranks\": 2", "\"ranks\": 1e300") == "measured.ranks must be a whole number, not 1e+300");
  CHECK(refused("\"ranks\": 2", "\"ranks\": 18446744073709551615").find("must be a whole number") != std::string::npos);
  CHECK(refused("\"hosts\": 2", "\"hosts\": \"two\"") == "measured.hosts must be a whole number, not \"two\"");
}

TEST_CASE("lists in lists, however deep, are refused, and their depth costs no stack") {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  const std::string text = Print(Sample());
  const std::string bytes = "[4, 64, 4096]";
  const std::size_t at = text.find(bytes);
  const auto refused = [&](std::size_t depth) {
    std::string changed = text;
    return ParseProfile(changed.replace(at, bytes.size(), nested(depth))).error().message();
  };
  CHECK(refused(3) == "measured all_reduce of 2 ranks: bytes must be whole numbers, not array");
  CHECK(refused(1'000'000).find("too deep") != std::string::npos);
}

TEST_CASE("a world that is there twice is refused") {
  Profile profile = Sample();
  profile.measured.push_back(profile.measured[1]);
  const auto parsed = ParseProfile(Print(profile));
  REQUIRE_FALSE(parsed);
  CHECK(parsed.error().message() == "measured barrier of 4 ranks appears twice");
  profile.measured.back() = profile.measured[2];
  CHECK(ParseProfile(Print(profile)).error().message() == "measured barrier of 4 ranks on 2 hosts appears twice");
}

TEST_CASE("a file that is not there, or is a folder, is named") {
  for (const char* path : {"/nowhere/profile.json", "/"}) {
    const auto read = ReadProfile(path);
    REQUIRE_FALSE(read);
    CHECK(read.error().message() == std::string("profile ") + path + " cannot be read");
  }
}

TEST_CASE("a name that is no UTF-8 is written all the same") {
  Profile profile = Sample();
  profile.name = "\xff";
  CHECK(ParseProfile(Print(profile)));
}

}  // namespace profile_test
}  // namespace rondo
