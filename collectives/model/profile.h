// A profile describes the machines of a job by constants of the cost model and measured times. It is one JSON text,
// which also says where the numbers come from. `rondo tune` writes it; docs/COST_MODEL.md describes the format.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "collectives/model/cost.h"
#include "collectives/schedule/step.h"

namespace rondo {

// Times of one collective in one world, whose ranks share a host or are spread evenly (Topology::even_hosts).
struct MeasuredWorld {
  Collective collective = Collective::kAllReduce;
  int world_size = 2;
  bool oversubscribed = false;       // a host had fewer cores than ranks
  std::vector<std::uint64_t> bytes;  // sizes of the vector, ascending
  struct Times {
    Algorithm algorithm = Algorithm::kRing;
    std::vector<double> us;  // by `bytes`, each > 0
    bool operator==(const Times&) const = default;
  };
  std::vector<Times> times;  // at most one entry per algorithm
  int hosts = 1;
  bool operator==(const MeasuredWorld&) const = default;

  // Time for one size. Between two measured sizes, it is interpolated linearly in the logarithms. Below the smallest
  // size, it is that size's time. Above the largest, it is in proportion to the size. nullopt: the algorithm was not
  // measured.
  std::optional<double> Us(Algorithm algorithm, std::uint64_t of_bytes) const;
};

struct Profile {
  std::string name;  // name of the machine and transport, for people
  // Origin of the numbers, as (what, value): "date", "cpu", "cores", ...
  std::vector<std::pair<std::string, std::string>> provenance;
  MachineCosts costs;
  std::vector<MeasuredWorld> measured;  // at most one entry per (collective, world size, hosts, oversubscribed)
  bool operator==(const Profile&) const = default;

  const MeasuredWorld* Find(Collective collective, int world_size, int hosts, bool oversubscribed) const;
};

// Returns the JSON text, in a fixed order, with a line for each list of numbers. ParseProfile makes an equal profile
// from it.
std::string Print(const Profile& profile);
// kInvalidArgument names the wrong field, or the position that is not valid JSON.
Result<Profile> ParseProfile(std::string_view json);
// kInvalidArgument names the file.
Result<std::shared_ptr<const Profile>> ReadProfile(const std::string& path);

// The profile that is used if no other is given: default_profile.json as of the library's build. One object for the
// whole process. Any thread.
std::shared_ptr<const Profile> DefaultProfile();

// Returns "name, 0123456789abcdef", which is equal for equal profiles. Ranks compare it to detect different profiles.
std::string Fingerprint(const Profile& profile);

}  // namespace rondo
