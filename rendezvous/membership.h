// The rendezvous: N processes that have nothing in common but a store find each other and become ranks 0..N-1.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/result.h"
#include "rendezvous/store.h"

namespace rondo {

// The description of a process for the other ranks.
struct Member {
  Rank rank = kNoRank;
  std::string host;  // host name, for people
  // Boot id and network namespace; equal only for processes in one network namespace of one kernel.
  std::string host_id;
  std::uint64_t pid = 0;  // for people
  std::string instance;   // random and new in every process, so that a restarted rank differs from the earlier process
                          // of this rank
  std::string address;    // the transport's address, opaque (Transport::Address())
  std::string cpus;       // the CPUs that the process may run on, in Linux's list format: "0-3,8"
  // "key=value" lines that must be equal on all ranks (version, algorithm table); an error lists the differences.
  std::string config;
};

struct JoinOptions {
  std::optional<Rank> rank;  // nullopt: the rank follows the order of arrival
  int world_size = 0;        // 1..kMaxWorldSize
  std::string job;           // job id; processes of different jobs do not take part in each other's rendezvous
  std::uint64_t generation = 0;
  Member self;         // its rank is ignored
  TimePoint deadline;  // for the whole rendezvous
  Logger* logger = nullptr;
  // Called on rank 0 when all ranks have arrived, before the result is published. A process that arrives after that
  // belongs to another rendezvous. May be null.
  std::function<void()> all_are_here = nullptr;
  std::string if_alone = {};  // a hint for people, added to the error if no other process arrived by the deadline
};
inline constexpr int kMaxWorldSize = 1 << 16;

struct Membership {
  Rank rank = kNoRank;
  std::string job;
  std::uint64_t generation = 0;
  std::vector<Member> members;  // by rank
};

// Performs the rendezvous with world_size - 1 other processes through `store`. Errors name the processes involved, with
// host and pid:
// - kRendezvousTimeout: ranks are missing at the deadline; the message lists the present and the missing ranks;
// - kDuplicateRank: two processes claim one rank; all processes get the error, with the host and pid of both;
// - kWorldSizeMismatch: the processes have different world sizes, or there are more processes than ranks; all processes
//   get the error at once;
// - kVersionMismatch: Member::config differs; the message names the field and both values;
// - kStale: the store holds the complete rendezvous of an earlier run;
// - kInvalidArgument: the world size is not allowed, the rank is outside 0..world_size-1, or the job id or a field of
//   `self` is too long.
Result<Membership> Join(Store& store, const Clock& clock, const JoinOptions& options);

// For a process that cannot take part, for example because it lacks descriptors. Makes the rendezvous fail with `why`,
// so that the other ranks get that error instead of waiting. Then waits until all other ranks have arrived, at most
// until the deadline, because the store may disappear when this process ends. Returns the error that this process must
// return.
Error AbortRendezvous(Store& store, const Clock& clock, const JoinOptions& options, const Error& why);

// Describes how two values of Member::config differ: "version is '1' here and '2' there; ...". Empty if they are equal.
std::string ConfigDifferences(std::string_view here, std::string_view there);

}  // namespace rondo
