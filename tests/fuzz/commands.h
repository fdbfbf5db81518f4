// What both programs of a harness understand beside their own work:
//
//   NAME --write-corpus FOLDER    its seeds into FOLDER/seeds, a file each, and its words into FOLDER/words
//   NAME --hex 524f4e44           one input, as a finding is printed
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rondo::fuzz {

// nullopt: two hexadecimal digits a byte are wanted.
std::optional<std::string> FromHex(std::string_view hex);

// Runs an input out of memory that ends where it does.
void RunInput(std::string_view input);

// The exit status of one of the commands above; nullopt: the arguments are none of them.
std::optional<int> RunCommand(int argc, char** argv);

}  // namespace rondo::fuzz
