// The two functions that every harness defines in its own namespace. The generated source NAME_fuzz_chosen.cc forwards
// the two functions below to one harness, so that the program tests that harness.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rondo::fuzz {

struct Corpus {
  std::vector<std::string> seeds;
  std::vector<std::string> words;  // texts that mutations may insert: magic numbers, keywords
};

// Call the functions of this program's harness.
Corpus HarnessCorpus();
void CheckInput(std::string_view input);

}  // namespace rondo::fuzz
