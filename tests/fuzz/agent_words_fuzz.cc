// tools: the messages between `rondo run` and its agents on other hosts.
#include "tests/fuzz/harness.h"
#include "tools/run/agent_words.h"
#include "tools/run/host_list.h"

namespace rondo::fuzz::agent_words_fuzz {
// A decoded word encodes to the same bytes, and all its accessors return a value or a valid error.
void CheckWords(std::string_view input) {
  const Allocations allocations;
  std::string_view unread = input;
  while (true) {
    const std::string_view before = unread;
    const auto word = TakeWord(unread);
    CheckError(word);
    if (!word || !*word) break;
    RONDO_HOLDS(unread.size() < before.size(), "a word of no bytes would be taken for ever");
    RONDO_HOLDS(Encode(**word) == before.substr(0, before.size() - unread.size()),
                "a word of kind '{}' came back otherwise", static_cast<char>((*word)->kind));
    for (std::size_t i = 0; i < (*word)->texts.size() + 2; ++i) {
      CheckError((*word)->Number(i, 0, 255));
      CheckError((*word)->VariablesFrom(i));
    }
    if ((*word)->texts.size() > 64) break;  // enough accessors called
  }
  allocations.CheckLargest(8192 + 64 * input.size());
}

// An accepted list of hosts contains no ssh option, and each rank has exactly one host.
void CheckHosts(std::string_view input) {
  const auto hosts = ParseHosts(input);
  CheckError(hosts);
  if (!hosts) return;
  for (const HostEntry& host : *hosts) RONDO_HOLDS(!host.ToString().starts_with('-'), "'{}'", host.ToString());
  const auto places = PlaceRanks(*hosts, 7, "a");
  CheckError(places);
  if (!places) return;
  Rank next = 0;
  for (const PlacedHost& place : *places) {
    RONDO_HOLDS(place.ranks.first == next && place.ranks.count > 0);
    next += place.ranks.count;
  }
  RONDO_HOLDS(next == 7, "{} ranks of 7", next);
}

Corpus HarnessCorpus() {
  return {.seeds = {Encode({AgentWordKind::kHello, {"0.1.0", "10.0.0.1"}}),
                    Encode({AgentWordKind::kJob, {"/home", "5000", "2", "echo", "hi", "RANK", "7"}}) +
                        Encode({AgentWordKind::kReady, {}}),
                    Encode({AgentWordKind::kStart, {"3", "1", "RANK", "3"}}) + Encode({AgentWordKind::kSignal, {"15"}}),
                    Encode({AgentWordKind::kEnded, {"3", "4711", "0", "9", ""}}), "a,b:4,user@c,[fe80::1%eth0]:2",
                    "localhost,a:3"},
          .words = {"[::1]", "localhost", ":2", ",", "@"}};
}

void CheckInput(std::string_view input) {
  CheckWords(input);
  CheckHosts(input);
}

}  // namespace rondo::fuzz::agent_words_fuzz
