// The hosts of `rondo run --hosts`, the ranks of each host, and how to reach the hosts. Plain values and pure
// functions, without I/O.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace rondo {

struct HostEntry {
  std::string user;          // the user name for ssh; "": ssh's default
  std::string name;          // host name or address, without brackets
  std::optional<int> ranks;  // the largest number of ranks for this host; nullopt: no limit

  // The form that messages show: "user@name", or "name" if no user is given.
  std::string ToString() const;
  friend bool operator==(const HostEntry&, const HostEntry&) = default;
};

// Parses a list like "a,b:4,user@c,[fe80::1%eth0]:2". kInvalidArgument: the list is malformed, or names a host twice.
Result<std::vector<HostEntry>> ParseHosts(std::string_view list);

// Whether the entry names no user and means this host: localhost, a loopback address, or `own_name`.
bool IsThisHost(const HostEntry& host, std::string_view own_name);

struct SshOptions {
  std::vector<std::string> command{"ssh"};  // the ssh command, with the user's options; options of OpenSSH are appended
  std::string rondo;                        // path of the program rondo on the other hosts
};

// Consecutive ranks of one host.
struct RankRange {
  Rank first = 0;
  int count = 0;
  friend bool operator==(const RankRange&, const RankRange&) = default;
};

struct PlacedHost {
  HostEntry host;
  bool here = false;  // whether this is the host of the launcher
  RankRange ranks;
  friend bool operator==(const PlacedHost&, const PlacedHost&) = default;
};

// Assigns ranks to hosts in the order of the list, and leaves out hosts without ranks. A host with a number of ranks
// gets that many, or fewer if fewer remain. Hosts without a number share the remaining ranks as evenly as possible; if
// the division has a remainder, the first hosts get one rank more. `own_name`: see IsThisHost. kInvalidArgument: the
// hosts have room for fewer than `ranks`, or two entries are this host.
Result<std::vector<PlacedHost>> PlaceRanks(const std::vector<HostEntry>& hosts, int ranks, std::string_view own_name);

}  // namespace rondo
