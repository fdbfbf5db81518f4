// collectives/schedule/text and verify: a schedule that a person wrote or damaged is proved or refused. The work is
// bounded by the size of its text.
#include <algorithm>

#include "base/printable.h"
#include "collectives/algorithms/table.h"
#include "collectives/schedule/layout.h"
#include "collectives/schedule/project.h"
#include "collectives/schedule/text.h"
#include "collectives/schedule/verify.h"
#include "tests/fuzz/harness.h"

namespace rondo::fuzz::schedule_text_fuzz {
// The time of a proof is proportional to ranks times chunks times steps, and a few bytes of text can ask for 2^24
// chunks.
constexpr std::uint32_t kMaxChunks = 64;
constexpr std::size_t kMaxSeedBytes = 1500;

std::string Repeated(int times) {
  std::string text = "schedule all_reduce ring world 2 root 0 in_place chunks 1\nrank 0\n";
  std::string other = "rank 1\n";
  // Both ranks exchange their sums repeatedly, so the expressions grow faster than the text. At the end rank 1 copies
  // the sum of rank 0.
  for (int i = 0; i < times; ++i) {
    const int s = 2 * i;
    text += fmt::format("  {}: send output[0] to 1 transfer {}{}\n", s, s,
                        i == 0 ? "" : fmt::format(" after {} raw", s - 1));
    text += fmt::format("  {}: recv_reduce output[0] = output[0] op rank 1 transfer {} after {}{} war\n", s + 1, s + 1,
                        i == 0 ? "" : fmt::format("{} raw, ", s - 1), s);
    other += fmt::format("  {}: recv_reduce output[0] = rank 0 op output[0] transfer {}{}\n", s, s,
                         i == 0 ? "" : fmt::format(" after {} raw, {} war", s - 2, s - 1));
    other += fmt::format("  {}: send output[0] to 0 transfer {} after {} raw\n", s + 1, s + 1, s);
  }
  const int s = 2 * times;
  text += fmt::format("  {}: send output[0] to 1 transfer {} after {} raw\n", s, s, s - 1);
  return text + other +
         fmt::format("  {}: recv output[0] from 0 transfer {} after {} waw, {} war\n", s, s, s - 2, s - 1);
}

void CheckProof(const Schedule& schedule) {
  const Allocations allocations;
  const Result<Proof> proof = Verify(schedule);
  // A proof allocates tables of all chunks, texts of all ranks' orders, and bit sets of steps. All are far smaller than
  // the numbers that a text can ask for.
  allocations.CheckLargest(1 << 20);
  if (!proof) return CheckError(proof.error());
  std::size_t steps = 0;
  for (const RankSchedule& rank : schedule.ranks) {
    steps += rank.steps.size();
    for (const RankSchedule& other : schedule.ranks) {
      if (other.rank != rank.rank) RONDO_HOLDS(VerifyLane(rank, other), "a lane of a schedule that was proved");
    }
  }
  RONDO_HOLDS(proof->transfers <= steps && proof->rounds <= proof->transfers);
  RONDO_HOLDS(proof->order.size() <= schedule.chunks);
  RONDO_HOLDS(!proof->left_fold || proof->in_rank_order);
  for (const std::string& order : proof->order) RONDO_HOLDS(IsPrintable(order) && order.size() < 1 << 16);
}

Corpus HarnessCorpus() {
  Corpus corpus;
  for (const AlgorithmEntry& entry : AllAlgorithms()) {
    for (const int world : {2, 3, 4}) {
      const ScheduleKey key{.collective = entry.collective,
                            .algorithm = entry.algorithm,
                            .world_size = world,
                            .in_place = HasInPlace(entry.collective) && world != 3};
      const std::string text = Print(Build(entry, key));
      if (text.size() <= kMaxSeedBytes) corpus.seeds.push_back(text);
    }
  }
  corpus.seeds.push_back(
      "# by hand\nschedule barrier dissemination world 1 root 0 in_place hosts 0 chunks 1\nrank 0\n");
  corpus.seeds.push_back(Repeated(12));
  corpus.words = {"recv_reduce", "recv",      "send",     "copy",  "reduce", "rank ", "output[0]", "input[0]",
                  "scratch[0]",  "transfer ", "after",    " raw",  " war",   " waw",  "finish",    "scale",
                  "scaled",      "hosts ",    "16777216", "[0:1]", "world ", "root ", "chunks ",   "4294967295"};
  return corpus;
}

void CheckInput(std::string_view input) {
  Result<Schedule> schedule = [&] {
    const Allocations allocations;
    auto parsed = Parse(input);
    allocations.CheckLargest(4096 + 64 * input.size());
    return parsed;
  }();
  CheckError(schedule);
  if (!schedule) return;
  RONDO_HOLDS(schedule->ranks.size() == static_cast<std::size_t>(schedule->key.world_size));
  const std::string printed = Print(*schedule);
  const Result<Schedule> again = Parse(printed);
  RONDO_HOLDS(again, "{}", again.error().ToString());
  RONDO_HOLDS(*again == *schedule && Print(*again) == printed);
  for (const RankSchedule& rank : schedule->ranks) CheckError(VerifyRankOrder(rank));
  if (schedule->chunks <= kMaxChunks) CheckProof(*schedule);
}

}  // namespace rondo::fuzz::schedule_text_fuzz
