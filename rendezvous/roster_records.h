// The keys and values that the agreement on a roster writes to the store, for roster_agreement.cc. docs/WIRE.md has
// their grammar.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "rendezvous/roster.h"
#include "rendezvous/store.h"

namespace rondo::roster {

// All keys are under "rebuild/FIRST_GENERATION/JOB/":
//
//   GENERATION/claim/R   rank R of the previous roster wants to continue; the value lists the ranks that rank R knows
//                        to be dead, and why. Only rank R writes the key. It writes the key again when it learns of
//                        another death.
//   GENERATION/roster    the roster; written once and never changed
//   joiners              counts the joiners that asked for admission
//   joiner/K             the request of joiner K; deleted when the joiner gives up
//   admission/K          the answer to joiner K: the generation whose roster contains the joiner, or why the
//                        joiner is refused. Every member of that roster writes the admission before it
//                        continues. So the joiner is admitted even if the rank that wrote the roster dies.
std::string Prefix(std::uint64_t first_generation, const std::string& job);
std::string ClaimKey(std::uint64_t generation, std::size_t rank);
std::string RosterKey(std::uint64_t generation);
inline constexpr char kJoiners[] = "joiners";
std::string JoinerKey(std::uint64_t number);
std::string AdmissionKey(std::uint64_t number);

inline constexpr std::size_t kMaxWhyBytes = 1024;  // longer reasons are cut

struct Claim {
  std::string instance;
  std::string cause;
  std::uint64_t last_run = 0;  // the generation to which the old ranks in the rank's previous roster belong
  std::vector<Rank> lost;      // the dead ranks, numbered as in the previous roster, not as in last_run
};
std::string Encode(const Claim& claim);
std::optional<Claim> DecodeClaim(std::string_view bytes);  // nullopt: the record has another version

std::string Encode(const Roster& roster);
// kProtocol names the store: the record has another version, or is the roster of another generation.
Result<Roster> Decode(std::string_view bytes, std::uint64_t generation, const Store& store);

struct Joiner {
  std::uint64_t number = 0;  // not in the record, because it is in the key
  RosterEntry who;
  std::string config;
};
std::string Encode(const Joiner& joiner);
std::optional<Joiner> DecodeJoiner(std::uint64_t number, std::string_view bytes);

struct Admission {
  bool admitted = false;
  std::uint64_t generation = 0;  // the generation whose roster contains the joiner
  std::string why;               // why the joiner is refused
};
std::string Encode(const Admission& admission);
std::optional<Admission> DecodeAdmission(std::string_view bytes);

}  // namespace rondo::roster
