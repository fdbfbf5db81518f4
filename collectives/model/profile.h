// What is known of the machines that a job runs on: constants for the cost model and times that were measured, as one
// JSON text with its provenance. `rondo tune` writes it; docs/COST_MODEL.md has the format.
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

// Times of one collective in one world whose ranks share a host, or are spread evenly (Place::even_hosts).
struct MeasuredWorld {
  Collective collective = Collective::kAllReduce;
  int world_size = 2;
  bool crowded = false;              // a host had fewer cores than ranks
  std::vector<std::uint64_t> bytes;  // of the vector, rising
  struct Times {
    Algorithm algorithm = Algorithm::kRing;
    std::vector<double> us;  // by `bytes`, each > 0
    bool operator==(const Times&) const = default;
  };
  std::vector<Times> times;  // each algorithm once
  int hosts = 1;
  bool operator==(const MeasuredWorld&) const = default;

  // Between two sizes on the straight line between logarithms; below the smallest its time; above the largest in
  // proportion. Nullopt where the algorithm was not measured.
  std::optional<double> Us(Algorithm algorithm, std::uint64_t of_bytes) const;
};

struct Profile {
  std::string name;  // of machine and transport, for people
  // Where the numbers come from, as (what, value): "date", "cpu", "cores", ...
  std::vector<std::pair<std::string, std::string>> provenance;
  MachineCosts costs;
  std::vector<MeasuredWorld> measured;  // each (collective, world size, hosts, crowded) once
  bool operator==(const Profile&) const = default;

  const MeasuredWorld* Find(Collective collective, int world_size, int hosts, bool crowded) const;
};

// The JSON text, in a fixed order with a line per list of numbers; ParseProfile gives the same profile back.
std::string Print(const Profile& profile);
// kInvalidArgument names the field, or the place where it is no JSON.
Result<Profile> ParseProfile(std::string_view json);
// kInvalidArgument names the file.
Result<std::shared_ptr<const Profile>> ReadProfile(const std::string& path);

// The one that holds where nobody gives another: default_profile.json, as it was when the library was built; one for
// the whole process. Any thread may ask.
std::shared_ptr<const Profile> DefaultProfile();

// "name, 0123456789abcdef": equal for equal profiles. By this ranks find out that they hold different ones.
std::string Fingerprint(const Profile& profile);

}  // namespace rondo
