// The hosts of `rondo run --hosts`, which ranks each of them gets, and how they are reached. Values, no I/O.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace rondo {

struct HostEntry {
  std::string user;          // "": whoever ssh takes
  std::string name;          // a name or an address, without brackets
  std::optional<int> ranks;  // at most so many

  // As messages show it: "user@name".
  std::string ToString() const;
  friend bool operator==(const HostEntry&, const HostEntry&) = default;
};

// "a,b:4,user@c,[fe80::1%eth0]:2". kInvalidArgument: "wants ...", also where one host is named twice.
Result<std::vector<HostEntry>> ParseHosts(std::string_view list);

// Whether this host is meant, in the name of this user: localhost, a loopback address, or `own_name`.
bool IsThisHost(const HostEntry& host, std::string_view own_name);

struct SshOptions {
  std::vector<std::string> command{"ssh"};  // and its own options; what is put behind them is for OpenSSH
  std::string rondo;                        // the path of rondo there
};

// Consecutive ranks of one host.
struct RankRange {
  Rank first = 0;
  int count = 0;
  friend bool operator==(const RankRange&, const RankRange&) = default;
};

struct PlacedHost {
  HostEntry host;
  bool here = false;  // it is this one
  RankRange ranks;
  friend bool operator==(const PlacedHost&, const PlacedHost&) = default;
};

// Who gets which ranks, in the order of the hosts; who gets none is left out. Hosts with a number of ranks take so many
// while there are some; what is left is spread over those without, as evenly as possible, the first ones taking one
// more. `own_name`: see IsThisHost. kInvalidArgument: there is room for fewer than `ranks`, or two entries are this
// host.
Result<std::vector<PlacedHost>> PlaceRanks(const std::vector<HostEntry>& hosts, int ranks, std::string_view own_name);

}  // namespace rondo
