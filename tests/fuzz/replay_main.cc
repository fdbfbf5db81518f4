// Runs a fuzzing harness as an ordinary test. The inputs are the harness's seeds: whole, cut at any length, twice in a
// row, and with one byte changed. This test does not search for new inputs, but it is part of every run of the tests,
// with every compiler and sanitizer.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "tests/fuzz/commands.h"
#include "tests/fuzz/harness.h"

namespace {

constexpr std::size_t kMaxInputsOfASeed = 4000;

// Changes one byte: flips its lowest or highest bit, adds 1, or sets it to 0x00 or 0xff.
std::string Changed(const std::string& seed, std::size_t at, int how) {
  const auto byte = static_cast<unsigned char>(seed[at]);
  const unsigned changes[] = {byte ^ 1u, byte ^ 0x80u, byte + 1u, 0x00, 0xff};
  std::string changed = seed;
  changed[at] = static_cast<char>(changes[how]);
  return changed;
}

std::size_t Replay(const std::string& seed) {
  constexpr int kChanges = 5;
  // Only some positions of a long seed are changed, so that the test takes seconds under a sanitizer too.
  const std::size_t stride = 1 + seed.size() * (kChanges + 1) / kMaxInputsOfASeed;
  rondo::fuzz::RunInput(seed);
  rondo::fuzz::RunInput(seed + seed);
  std::size_t inputs = 2;
  for (std::size_t at = 0; at < seed.size(); at += stride) {
    rondo::fuzz::RunInput(std::string_view(seed).substr(0, at));
    for (int how = 0; how < kChanges; ++how) rondo::fuzz::RunInput(Changed(seed, at, how));
    inputs += 1 + kChanges;
  }
  return inputs;
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto status = rondo::fuzz::RunCommand(argc, argv)) return *status;
  if (argc != 1) {
    fmt::print(stderr, "expected no argument, --hex HEX or --write-corpus FOLDER\n");
    return 2;
  }
  const rondo::fuzz::Corpus corpus = rondo::fuzz::HarnessCorpus();
  rondo::fuzz::RunInput("");
  std::size_t inputs = 1;
  for (const std::string& seed : corpus.seeds) inputs += Replay(seed);
  fmt::print("{} inputs of {} seeds\n", inputs, corpus.seeds.size());
  return corpus.seeds.empty() ? 1 : 0;
}
