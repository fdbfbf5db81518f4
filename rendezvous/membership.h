// Meeting: how N processes that know only a store become ranks 0..N-1 that know each other.
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

// One process as it presents itself.
struct Member {
  Rank rank = kNoRank;
  std::string host;       // host name, for people
  std::string host_id;    // equal on two processes only if they share kernel and network: boot id + network namespace
  std::uint64_t pid = 0;  // for people
  std::string instance;   // random, new in every process: tells a restarted rank from the first
  std::string address;    // the transport's, opaque (Transport::Address())
  std::string cpus;       // that it may run on, as Linux writes such a list: "0-3,8"
  std::string config;  // what all ranks must agree on, "key=value" lines (version, algorithm table); compared in words
};

struct JoinOptions {
  std::optional<Rank> rank;  // nullopt: given by order of arrival
  int world_size = 0;        // 1..kMaxWorldSize
  std::string job;           // job id; processes of different jobs must not meet
  std::uint64_t generation = 0;
  Member self;         // rank is ignored
  TimePoint deadline;  // for the whole meeting
  Logger* logger = nullptr;
  // On rank 0, when all are here and before any of them is told: who comes now is of another meeting. May be null.
  std::function<void()> all_are_here = nullptr;
  std::string if_alone = {};  // added to the error where no other process came by the deadline: what that may mean
};
inline constexpr int kMaxWorldSize = 1 << 16;

struct Membership {
  Rank rank = kNoRank;
  std::string job;
  std::uint64_t generation = 0;
  std::vector<Member> members;  // by rank
};

// Meets world_size - 1 others through `store`. Every error lists who came from where and who is missing:
// - kRendezvousTimeout: absent ranks at the deadline;
// - kDuplicateRank: two processes claim one rank; both are told, with both hosts and pids, and so is everybody else;
// - kWorldSizeMismatch: processes named different world sizes; all are told at once;
// - kVersionMismatch: Member::config differs; the message has the field and the values of both;
// - kStale: the store holds the meeting of an earlier run;
// - kInvalidArgument: the rank is outside 0..world_size-1.
Result<Membership> Join(Store& store, const Clock& clock, const JoinOptions& options);

// Of a process that cannot take part, for lack of descriptors, say: ends the meeting with `why`, so that the others
// learn that instead of waiting. It waits until the deadline for them to come for it, since the store may end with the
// last process that uses it. Gives the error that this process returns.
Error EndMeeting(Store& store, const Clock& clock, const JoinOptions& options, const Error& why);

// How two of Member::config differ, in words: "version is '1' here and '2' there; ..."; empty where both say the same.
std::string ConfigDifferences(std::string_view here, std::string_view there);

}  // namespace rondo
