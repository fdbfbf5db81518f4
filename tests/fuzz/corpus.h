// Every harness defines the two functions below in its own namespace. The generated source NAME_fuzz_chosen.cc defines
// them in rondo::fuzz and forwards them to one harness, so that the program tests that harness.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rondo::fuzz {

struct Corpus {
  std::vector<std::string> seeds;
  std::vector<std::string> words;  // texts that mutations may insert: magic numbers, keywords
};

// These functions call the functions of the same names in this program's harness.
Corpus HarnessCorpus();
void CheckInput(std::string_view input);

}  // namespace rondo::fuzz
