// rendezvous/roster: any values that the store may have while the surviving ranks agree on a roster, for example from a
// process of another build or a foreign client.
//
// An input's first byte describes the caller: one of two ranks, with or without room for joiners, or a joiner. The rest
// is a list of entries: a byte for the key, 16 bits of length, the value.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "base/byte_codec.h"
#include "base/clock.h"
#include "rendezvous/memory_store.h"
#include "rendezvous/roster_agreement.h"
#include "tests/fuzz/harness.h"

namespace rondo::fuzz::roster_fuzz {
constexpr std::array<std::string_view, 8> kKeys{"1/claim/0", "1/claim/1",   "1/roster",    "joiners",
                                                "joiner/1",  "admission/1", "admission/2", "joiner/2"};
constexpr std::string_view kConfig = "version=1\n";
constexpr TimePoint kPast{};  // a caller that would have to wait gets its timeout at once

enum Asks : std::uint8_t { kSecondRank = 1, kHasRoom = 2, kIsJoiner = 4 };

std::string PathOf(std::string_view key) { return fmt::format("rebuild/0/j/{}", key); }

RosterEntry Entry(std::string instance, Rank old_rank) {
  return {.instance = std::move(instance), .host = "a", .pid = 17, .old_rank = old_rank};
}

RosterOptions OptionsFrom(std::uint8_t who) {
  RosterOptions options;
  options.job = "j";
  options.previous.members = {Entry("self", 0), Entry("other", 1)};
  options.rank = (who & kSecondRank) != 0 ? 1 : 0;
  options.cause = "peer_lost: it died";
  options.lost = [other = 1 - options.rank] { return std::vector<Rank>{other}; };
  options.config = kConfig;
  options.rules = {.min_ranks = 1, .max_ranks = (who & kHasRoom) != 0 ? 3 : 0, .settle = std::chrono::seconds(1)};
  options.deadline = kPast;
  return options;
}

Result<Roster> Ask(Store& store, std::uint8_t who) {
  const ManualClock clock;
  if ((who & kIsJoiner) == 0) return AgreeOnRoster(store, clock, OptionsFrom(who));
  return AwaitAdmission(store, clock,
                        {.job = "j", .self = Entry("new", kNoRank), .config = std::string(kConfig), .deadline = kPast});
}

// Returns an input in which `who` calls Ask. The input's store has the contents that remain after the callers in
// `asked` have called Ask, one after the other.
std::string After(std::initializer_list<std::uint8_t> asked, std::uint8_t who) {
  MemoryStore store;
  for (const std::uint8_t one : asked) (void)Ask(store, one);
  std::string input(1, static_cast<char>(who));
  for (std::size_t key = 0; key < kKeys.size(); ++key) {
    const auto value = store.Get(PathOf(kKeys[key]), kPast);
    if (value && *value)
      input += ByteWriter().Number(static_cast<std::uint8_t>(key)).Text<std::uint16_t>(**value).Take();
  }
  return input;
}

std::string Counting(std::uint8_t who, std::string_view joiners) {
  return std::string(1, static_cast<char>(who)) +
         ByteWriter().Number(std::uint8_t{3}).Text<std::uint16_t>(joiners).Take();
}

Corpus HarnessCorpus() {
  return {.seeds = {After({}, 0), After({0}, 0), After({0}, kSecondRank), After({0}, kIsJoiner),
                    After({kIsJoiner}, kHasRoom), After({kIsJoiner, kHasRoom}, kHasRoom | kSecondRank),
                    Counting(kHasRoom, "9223372036854775807"), Counting(kHasRoom, "-1"),
                    Counting(kIsJoiner, "9223372036854775807"), Counting(kIsJoiner, "-1")},
          .words = {"9223372036854775807", std::string("\xff\xff\xff\xff", 4)}};
}

void CheckInput(std::string_view input) {
  if (input.empty()) return;
  const auto who = static_cast<std::uint8_t>(input.front());
  MemoryStore store;
  for (ByteReader in(input.substr(1)); in.remaining() > 2;) {
    const std::size_t key = in.Number<std::uint8_t>() % kKeys.size();
    const std::size_t bytes = in.Number<std::uint16_t>();
    RONDO_HOLDS(store.Set(PathOf(kKeys[key]), in.Raw(std::min(bytes, in.remaining())), kPast));
  }

  const Allocations allocations;
  const Result<Roster> roster = Ask(store, who);
  allocations.CheckLargest((1 << 20) + 64 * input.size());
  CheckError(roster);
  if (!roster) return;
  for (const RosterEntry& member : roster->members) RONDO_HOLDS(member.old_rank >= kNoRank);
  if ((who & kIsJoiner) != 0) return;
  const std::string self = OptionsFrom(who).previous.members[(who & kSecondRank) != 0 ? 1 : 0].instance;
  RONDO_HOLDS(roster->generation == 1, "generation {}", roster->generation);
  RONDO_HOLDS(std::any_of(roster->members.begin(), roster->members.end(),
                          [&](const RosterEntry& member) { return member.instance == self; }),
              "a roster that lacks the process that asked");
}

}  // namespace rondo::fuzz::roster_fuzz
