// What the agreement on a roster writes to the store: keys and values. For roster_agreement.cc; docs/WIRE.md has it as
// a grammar.
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

// All under "rebuild/FIRST_GENERATION/JOB/":
//
//   GENERATION/claim/R   the rank R of the roster before wants to go on; whom it knows to be dead, and why. Its own
//   key:
//                        written by nobody else, again whenever it learns of another death
//   GENERATION/roster    written once, for good
//   newcomers            counts those who asked to come in
//   newcomer/K           the K-th of them; deleted when it gives up
//   admission/K          its answer: the generation whose roster has it, or why none will. Every member of that roster
//                        writes the first before it goes on, so the death of whoever wrote the roster does no harm
std::string Prefix(std::uint64_t first_generation, const std::string& job);
std::string ClaimKey(std::uint64_t generation, std::size_t rank);
std::string RosterKey(std::uint64_t generation);
inline constexpr char kNewcomers[] = "newcomers";
std::string NewcomerKey(std::uint64_t number);
std::string AdmissionKey(std::uint64_t number);

inline constexpr std::size_t kMaxWhyBytes = 1024;  // longer reasons are cut

struct Claim {
  std::string instance;
  std::string cause;
  std::uint64_t last_run = 0;  // the generation that its old ranks belong to
  std::vector<Rank> lost;      // ranks of the roster before, whatever its old ranks are
};
std::string Encode(const Claim& claim);
std::optional<Claim> DecodeClaim(std::string_view bytes);  // nullopt: of another version

std::string Encode(const Roster& roster);
// kProtocol names the store: the bytes are of another version, or of another generation's roster.
Result<Roster> Decode(std::string_view bytes, std::uint64_t generation, const Store& store);

struct Newcomer {
  std::uint64_t number = 0;  // not in the record: its key says it
  RosterEntry who;
  std::string config;
};
std::string Encode(const Newcomer& newcomer);
std::optional<Newcomer> DecodeNewcomer(std::uint64_t number, std::string_view bytes);

struct Admission {
  bool admitted = false;
  std::uint64_t generation = 0;  // whose roster has the newcomer
  std::string why;               // not
};
std::string Encode(const Admission& admission);
std::optional<Admission> DecodeAdmission(std::string_view bytes);

}  // namespace rondo::roster
