// collectives/model/profile: a profile that `rondo tune` or an editor wrote.
#include "base/printable.h"
#include "collectives/model/profile.h"
#include "tests/fuzz/harness.h"

namespace rondo::fuzz::profile_fuzz {
Profile SmallProfile() {
  Profile profile;
  profile.name = "a \"quoted\" machine";
  profile.provenance = {{"date", "2026-01-02"}, {"cpu", "some"}};
  profile.costs = {.hop_us = 1.5, .message_us = 0.25, .byte_ns = 0.1, .wire_gbit_per_s = 100};
  profile.measured = {{.collective = Collective::kAllReduce,
                       .world_size = 4,
                       .bytes = {4, 64},
                       .times = {{Algorithm::kRing, {10, 11}}, {Algorithm::kTree, {8, 9.5}}},
                       .hosts = 2},
                      {.collective = Collective::kBarrier,
                       .oversubscribed = true,
                       .bytes = {0},
                       .times = {{Algorithm::kDissemination, {12}}}}};
  return profile;
}

Corpus HarnessCorpus() {
  Profile empty;
  empty.costs.wire_gbit_per_s = 1;
  return {.seeds = {Print(SmallProfile()), Print(empty), "{}", "[[[[[[", "{\"rondo_profile\": 1}"},
          .words = {"\"rondo_profile\":",
                    "\"name\":",
                    "\"provenance\":",
                    "\"costs\":",
                    "\"measured\":",
                    "\"ranks\":",
                    "\"hosts\":",
                    "\"bytes\":",
                    "\"us\":",
                    "1e300",
                    "2.5",
                    "-1",
                    "18446744073709551615",
                    "4294967297",
                    "[[[[[[[[",
                    "{\"\":",
                    "\\ud800",
                    "\\u0000",
                    "null",
                    "true"}};
}

void CheckInput(std::string_view input) {
  const Allocations allocations;
  const Result<Profile> profile = ParseProfile(input);
  CheckError(profile);
  allocations.CheckLargest(65536 + 128 * input.size());
  if (!profile) return;

  const std::string printed = Print(*profile);
  const Result<Profile> again = ParseProfile(printed);
  RONDO_HOLDS(again, "{}: {}", again.error().ToString(), printed);
  RONDO_HOLDS(*again == *profile && Print(*again) == printed);
  RONDO_HOLDS(Fingerprint(*again) == Fingerprint(*profile));
  for (const MeasuredWorld& world : profile->measured) {
    RONDO_HOLDS(world.world_size >= 1 && world.hosts >= 1 && world.world_size % world.hosts == 0);
    RONDO_HOLDS(profile->Find(world.collective, world.world_size, world.hosts, world.oversubscribed) == &world);
    for (const MeasuredWorld::Times& times : world.times) {
      for (const std::uint64_t bytes : {std::uint64_t{0}, world.bytes.back(), ~std::uint64_t{0}}) {
        const auto us = world.Us(times.algorithm, bytes);
        RONDO_HOLDS(us && *us > 0 && *us < 1e300);
      }
    }
  }
}

}  // namespace rondo::fuzz::profile_fuzz
