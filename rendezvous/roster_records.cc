#include "rendezvous/roster_records.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/byte_codec.h"

namespace rondo::roster {
namespace {

constexpr std::uint8_t kRecordVersion = 3;
constexpr std::size_t kMaxNameBytes = 1024;
constexpr std::size_t kMaxConfigBytes = 64 << 10;

enum class AdmissionKind : std::uint8_t { kAdmitted = 1, kRefused = 2 };

void WriteEntry(ByteWriter& out, const RosterEntry& entry) {
  out.Text(entry.instance).Text(entry.host).Number(entry.pid);
  out.Number(static_cast<std::uint32_t>(entry.old_rank)).Number(entry.joiner);
}

RosterEntry ReadEntry(ByteReader& in) {
  RosterEntry entry;
  entry.instance = in.Text(kMaxNameBytes);
  entry.host = in.Text(kMaxNameBytes);
  entry.pid = in.Number<std::uint64_t>();
  entry.old_rank = static_cast<Rank>(in.Number<std::uint32_t>());
  entry.joiner = in.Number<std::uint64_t>();
  return entry;
}

}  // namespace

std::string ClaimKey(std::uint64_t generation, std::size_t rank) {
  return fmt::format("{}/claim/{}", generation, rank);
}
std::string RosterKey(std::uint64_t generation) { return fmt::format("{}/roster", generation); }
std::string JoinerKey(std::uint64_t number) { return fmt::format("joiner/{}", number); }
std::string AdmissionKey(std::uint64_t number) { return fmt::format("admission/{}", number); }
std::string Prefix(std::uint64_t first_generation, const std::string& job) {
  return fmt::format("rebuild/{}/{}/", first_generation, job);
}

std::string Encode(const Claim& claim) {
  ByteWriter out;
  out.Number(kRecordVersion).Text(claim.instance).Text(std::string_view(claim.cause).substr(0, kMaxWhyBytes));
  out.Number(claim.last_run).Number(static_cast<std::uint32_t>(claim.lost.size()));
  for (const Rank rank : claim.lost) out.Number(static_cast<std::uint32_t>(rank));
  return out.Take();
}

std::optional<Claim> DecodeClaim(std::string_view bytes) {
  ByteReader in(bytes);
  Claim claim;
  const bool known = in.Number<std::uint8_t>() == kRecordVersion;
  claim.instance = in.Text(kMaxNameBytes);
  claim.cause = in.Text(kMaxWhyBytes);
  claim.last_run = in.Number<std::uint64_t>();
  const auto count = in.Number<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && in.ok(); ++i)
    claim.lost.push_back(static_cast<Rank>(in.Number<std::uint32_t>()));
  return known && in.AtEnd() ? std::optional(claim) : std::nullopt;
}

std::string Encode(const Roster& roster) {
  ByteWriter out;
  out.Number(kRecordVersion).Number(roster.generation).Number(roster.last_run);
  out.Number(static_cast<std::uint32_t>(roster.rules.min_ranks));
  out.Number(static_cast<std::uint32_t>(roster.rules.max_ranks));
  out.Number(static_cast<std::uint64_t>(roster.rules.settle.count()));
  out.Number(static_cast<std::uint32_t>(roster.members.size()));
  for (const RosterEntry& member : roster.members) WriteEntry(out, member);
  out.Number(static_cast<std::uint32_t>(roster.departed.size()));
  for (const Departed& one : roster.departed) {
    WriteEntry(out, one.who);
    out.Text(std::string_view(one.why).substr(0, kMaxWhyBytes));
  }
  return out.Take();
}

Result<Roster> Decode(std::string_view bytes, std::uint64_t generation, const Store& store) {
  ByteReader in(bytes);
  Roster roster;
  const bool known = in.Number<std::uint8_t>() == kRecordVersion;
  roster.generation = in.Number<std::uint64_t>();
  roster.last_run = in.Number<std::uint64_t>();
  roster.rules.min_ranks = static_cast<int>(in.Number<std::uint32_t>());
  roster.rules.max_ranks = static_cast<int>(in.Number<std::uint32_t>());
  roster.rules.settle = Duration(in.Number<std::uint64_t>());
  const auto members = in.Number<std::uint32_t>();
  for (std::uint32_t i = 0; i < members && in.ok(); ++i) roster.members.push_back(ReadEntry(in));
  const auto departed = in.Number<std::uint32_t>();
  for (std::uint32_t i = 0; i < departed && in.ok(); ++i) {
    Departed one{.who = ReadEntry(in), .why = {}};
    one.why = in.Text(kMaxWhyBytes);
    roster.departed.push_back(std::move(one));
  }
  const bool ranked = std::all_of(roster.members.begin(), roster.members.end(),
                                  [](const RosterEntry& member) { return member.old_rank >= kNoRank; });
  const bool ruled = roster.rules.LeaveANumber() && roster.rules.settle >= Duration::zero();
  if (known && in.AtEnd() && ranked && ruled && roster.generation == generation) return roster;
  return Fail(ErrorCode::kProtocol,
              "the roster of generation {} in store {} cannot be read; a process with another version of Rondo may "
              "have written it",
              generation, store.Describe());
}

std::string Encode(const Joiner& joiner) {
  ByteWriter out;
  out.Number(kRecordVersion);
  WriteEntry(out, joiner.who);
  out.Text(joiner.config);
  return out.Take();
}

std::optional<Joiner> DecodeJoiner(std::uint64_t number, std::string_view bytes) {
  ByteReader in(bytes);
  const bool known = in.Number<std::uint8_t>() == kRecordVersion;
  Joiner joiner{.number = number, .who = ReadEntry(in), .config = {}};
  joiner.config = in.Text(kMaxConfigBytes);
  return known && in.AtEnd() ? std::optional(joiner) : std::nullopt;
}

std::string Encode(const Admission& admission) {
  ByteWriter out;
  if (admission.admitted) {
    out.Number(static_cast<std::uint8_t>(AdmissionKind::kAdmitted)).Number(admission.generation);
  } else {
    out.Number(static_cast<std::uint8_t>(AdmissionKind::kRefused));
    out.Text(std::string_view(admission.why).substr(0, kMaxConfigBytes));
  }
  return out.Take();
}

std::optional<Admission> DecodeAdmission(std::string_view bytes) {
  ByteReader in(bytes);
  Admission admission;
  const auto kind = in.Number<std::uint8_t>();
  admission.admitted = kind == static_cast<std::uint8_t>(AdmissionKind::kAdmitted);
  if (admission.admitted) {
    admission.generation = in.Number<std::uint64_t>();
  } else {
    admission.why = in.Text(kMaxConfigBytes);
  }
  const bool known = admission.admitted || kind == static_cast<std::uint8_t>(AdmissionKind::kRefused);
  return known && in.AtEnd() ? std::optional(admission) : std::nullopt;
}

}  // namespace rondo::roster
