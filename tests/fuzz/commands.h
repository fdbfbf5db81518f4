// Commands that both programs of a harness support in addition to their own work:
//
//   NAME --write-corpus FOLDER    writes its seeds into FOLDER/seeds, one file each, and its words into FOLDER/words
//   NAME --hex 524f4e44           runs one input, in the form in which a finding is printed
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rondo::fuzz {

// nullopt: `hex` is not two hexadecimal digits for each byte.
std::optional<std::string> FromHex(std::string_view hex);

// Runs an input from memory of exactly its length, so that a sanitizer detects reads beyond its end.
void RunInput(std::string_view input);

// The exit status of one of the commands above; nullopt: the arguments are no such command.
std::optional<int> RunCommand(int argc, char** argv);

}  // namespace rondo::fuzz
