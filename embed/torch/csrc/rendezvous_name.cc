// Rank 0 chooses the name. Each other rank writes a random word, its call. Rank 0 answers with that word and the name,
// and the rank confirms by writing the name back. So a rank accepts only answers to its own call, and rank 0 finishes
// only when all ranks have confirmed the name. Values written by ranks of an earlier rendezvous match neither a call
// nor the name. Rank 0 looks for new calls until it finishes, because the rank whose call it answered may be a dead one
// of an earlier rendezvous.
#include "rendezvous_name.h"

#include <c10/util/Exception.h>

#include <map>
#include <random>
#include <thread>
#include <vector>

namespace rondo_torch {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPause = std::chrono::milliseconds(2);

std::string MadeUp() {
  std::random_device device;
  std::string word;
  while (word.size() < 16) word += "0123456789abcdef"[device() % 16];
  return word;
}

std::string Key(const char* what, int rank) { return std::string("rondo/") + what + "/" + std::to_string(rank); }

void Set(c10d::Store& store, const std::string& key, const std::string& value) {
  store.set(key, std::vector<uint8_t>(value.begin(), value.end()));
}

// The value of a key, or an empty string if the key does not exist; the store's get would wait for the key.
std::string Get(c10d::Store& store, const std::string& key) {
  if (!store.check({key})) return {};
  const std::vector<uint8_t> value = store.get(key);
  return {value.begin(), value.end()};
}

std::string Host(c10d::Store& store, int size, std::chrono::milliseconds timeout, const RankNames& names,
                 const Making& making) {
  const auto until = Clock::now() + timeout;
  const std::string name = MadeUp();
  // Ranks that have not confirmed the name, each with its latest call that rank 0 has answered.
  std::map<int, std::string> missing;
  for (int rank = 1; rank < size; ++rank) missing[rank];
  while (true) {
    making.Check();
    for (auto of_rank = missing.begin(); of_rank != missing.end();) {
      auto& [rank, answered] = *of_rank;
      if (const std::string call = Get(store, Key("call", rank)); call != answered) {
        Set(store, Key("answer", rank), call + name);
        answered = call;
      }
      of_rank = Get(store, Key("confirmed", rank)) == name ? missing.erase(of_rank) : std::next(of_rank);
    }
    if (missing.empty()) return name;
    if (Clock::now() > until) {
      std::vector<int32_t> ranks;
      for (const auto& [rank, answered] : missing) ranks.push_back(rank);
      TORCH_CHECK(false, "rondo: Timed out : some of the ", size, " ranks did not come within ", timeout.count(),
                  " ms: ", names.Names(ranks));
    }
    std::this_thread::sleep_for(kPause);
  }
}

std::string Join(c10d::Store& store, int rank, std::chrono::milliseconds timeout, const RankNames& names,
                 const Making& making) {
  const auto until = Clock::now() + timeout;
  const std::string call = MadeUp();
  making.Check();  // checked first, because setting a key in a FileStore would recreate its removed file
  Set(store, Key("call", rank), call);
  while (true) {
    making.Check();
    const std::string answer = Get(store, Key("answer", rank));
    if (answer.compare(0, call.size(), call) == 0) {
      const std::string name = answer.substr(call.size());
      Set(store, Key("confirmed", rank), name);
      return name;
    }
    TORCH_CHECK(Clock::now() <= until, "rondo: Timed out : ", names.Name(0), " did not answer ", names.Name(rank),
                " within ", timeout.count(), " ms");
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

std::string UniqueRendezvousName(c10d::Store& store, int rank, int size, std::chrono::milliseconds timeout,
                                 const RankNames& names, const Making& making) {
  return rank == 0 ? Host(store, size, timeout, names, making) : Join(store, rank, timeout, names, making);
}

}  // namespace rondo_torch
