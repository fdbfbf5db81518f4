// The two functions that every harness defines in its own namespace. The generated source NAME_fuzz_chosen.cc forwards
// the two below to those of one harness, which makes the program a fuzzer of that harness.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rondo::fuzz {

struct Corpus {
  std::vector<std::string> seeds;
  std::vector<std::string> words;  // that mutations may insert: magics, keywords
};

// Forwarded to the harness of this program.
Corpus HarnessCorpus();
void CheckInput(std::string_view input);

}  // namespace rondo::fuzz
