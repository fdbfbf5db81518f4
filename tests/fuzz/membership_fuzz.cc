// rendezvous/membership: any values that the store may have under the rendezvous' keys, for example from a process of
// another build or a foreign client.
//
// An input's first byte describes the process that joins: its rank, if one is given, and the world size. The rest is a
// list of entries, each with a byte for the key, 16 bits for the length, and the value.
#include <algorithm>
#include <array>
#include <memory>

#include "base/byte_codec.h"
#include "rendezvous/membership.h"
#include "rendezvous/memory_store.h"
#include "tests/fuzz/harness.h"

namespace rondo::fuzz::membership_fuzz {
constexpr std::array<std::string_view, 8> kKeys{"founding", "arrivals", "outcome", "member/0",
                                                "member/1", "member/2", "table/1", "table/2"};
enum Key : std::uint8_t { kFounding, kArrivals, kOutcome, kMember0, kMember1 };

constexpr TimePoint kPast{};  // a rank that would have to wait gets its timeout at once

Member SomeMember(std::string instance) {
  return {.host = "a",
          .host_id = "boot-net",
          .pid = 17,
          .instance = std::move(instance),
          .address = "RTA",
          .cpus = "0-3",
          .config = "version=1\npath=tcp\n"};
}

JoinOptions OptionsFrom(std::uint8_t who) {
  return {.rank = (who & 4) != 0 ? std::nullopt : std::optional<Rank>((who >> 3) & 1),
          .world_size = 1 + (who & 3),
          .job = "j",
          .self = SomeMember("self"),
          .deadline = kPast};
}

void WriteMember(ByteWriter& out, const Member& member) {
  out.Text(member.host).Text(member.host_id).Number(member.pid).Text(member.instance).Text(member.address);
  out.Text(member.cpus);
}

std::string Founding(std::uint32_t world_size, bool ranks_given) {
  ByteWriter out;
  out.Number(world_size).Number(static_cast<std::uint8_t>(ranks_given)).Text(SomeMember("").config);
  WriteMember(out, SomeMember("other"));
  out.Number(std::uint32_t{0});
  return out.Take();
}

std::string Claim(const char* instance) {
  ByteWriter out;
  WriteMember(out, SomeMember(instance));
  return out.Take();
}

std::string Table(std::uint32_t parts, std::initializer_list<const char*> instances) {
  ByteWriter out;
  out.Number(std::uint8_t{1}).Number(parts);
  for (const char* instance : instances) WriteMember(out, SomeMember(instance));
  return out.Take();
}

std::string Failure(std::string_view message) {
  ByteWriter out;
  out.Number(std::uint8_t{2}).Number(static_cast<std::uint8_t>(ErrorCode::kDuplicateRank)).Number(std::uint32_t{1});
  return out.Text(message).Text("a").Take();
}

std::string Entry(Key key, std::string_view value) {
  return ByteWriter().Number(static_cast<std::uint8_t>(key)).Text<std::uint16_t>(value).Take();
}

Corpus HarnessCorpus() {
  // First bytes of inputs: rank 0 of two ranks, one of two ranks in the order of arrival, and the only rank of its
  // world.
  const std::string two(1, 1), two_by_arrival(1, 5), one(1, 0);
  const std::string agreed = Entry(kFounding, Founding(2, true));
  const std::string by_arrival = Entry(kFounding, Founding(2, false));
  return {
      .seeds = {one, two + agreed, two + Entry(kFounding, Founding(3, true)),
                two + agreed + Entry(kMember1, Claim("other")),
                two + agreed + Entry(kMember0, Claim("other")) + Entry(kOutcome, Failure("two processes claim rank 1")),
                two + Entry(kOutcome, Failure("")),  // no rank writes an empty failure
                two + agreed + Entry(kMember1, Claim("other")) + Entry(kOutcome, Table(1, {"self", "other"})),
                two + agreed + Entry(kOutcome, Table(1, {"other", "self"})),
                two + agreed + Entry(kOutcome, Table(3, {"self"})) + Entry(Key{6}, Claim("other")),
                two_by_arrival + by_arrival + Entry(kArrivals, "1"),
                two_by_arrival + by_arrival + Entry(kArrivals, "-7") + Entry(kOutcome, Table(1, {"a", "b"}))},
      .words = {"-9223372036854775808", "version=1\n", std::string("\xff\xff\xff\xff", 4)}};
}

void CheckInput(std::string_view input) {
  if (input.empty()) return;
  const JoinOptions options = OptionsFrom(static_cast<std::uint8_t>(input.front()));
  MemoryStore store;
  for (ByteReader in(input.substr(1)); in.remaining() > 2;) {
    const std::size_t key = in.Number<std::uint8_t>() % kKeys.size();
    const std::size_t bytes = in.Number<std::uint16_t>();
    const Status set =
        store.Set(fmt::format("rondo/j/0/{}", kKeys[key]), in.Raw(std::min(bytes, in.remaining())), kPast);
    RONDO_HOLDS(set);
  }

  const ManualClock clock;
  const Allocations allocations;
  const Result<Membership> membership = Join(store, clock, options);
  allocations.CheckLargest(16384 + 64 * input.size());
  CheckError(membership);
  if (!membership) return;
  RONDO_HOLDS(membership->rank >= 0 && membership->rank < options.world_size, "rank {}", membership->rank);
  RONDO_HOLDS(membership->members.size() == static_cast<std::size_t>(options.world_size));
  for (std::size_t r = 0; r < membership->members.size(); ++r)
    RONDO_HOLDS(membership->members[r].rank == static_cast<Rank>(r));
  const Member& self = membership->members[static_cast<std::size_t>(membership->rank)];
  RONDO_HOLDS(self.instance == options.self.instance, "the table's entry of this rank is another process");
}

}  // namespace rondo::fuzz::membership_fuzz
