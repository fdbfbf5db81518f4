// What a harness defines in a namespace of its own; the generated source NAME_fuzz_chosen.cc says which harness a
// program is.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rondo::fuzz {

struct Corpus {
  std::vector<std::string> seeds;
  std::vector<std::string> words;  // that mutations may insert: magics, keywords
};

// Of the chosen harness.
Corpus HarnessCorpus();
void CheckInput(std::string_view input);

}  // namespace rondo::fuzz
