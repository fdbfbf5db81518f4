#include "tests/fuzz/commands.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>

#include "tests/fuzz/harness.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace rondo::fuzz {
namespace {

bool WriteFile(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  return !file.fail();
}

// A line of a libFuzzer dictionary. It may write every byte as \xAB.
std::string DictionaryLine(std::string_view word) {
  std::string line = "\"";
  for (const char c : word) line += fmt::format("\\x{:02X}", static_cast<unsigned char>(c));
  return line + "\"\n";
}

int WriteCorpus(const std::filesystem::path& folder) {
  const Corpus corpus = HarnessCorpus();
  std::error_code error;
  std::filesystem::create_directories(folder / "seeds", error);
  bool written = !error;
  for (std::size_t i = 0; i < corpus.seeds.size(); ++i)
    written = written && WriteFile(folder / "seeds" / fmt::format("{:03}", i), corpus.seeds[i]);
  std::string words;
  for (const std::string& word : corpus.words) words += DictionaryLine(word);
  written = written && WriteFile(folder / "words", words);
  if (!written) fmt::print(stderr, "{}: cannot be written\n", folder.string());
  return written ? 0 : 1;
}

}  // namespace

std::optional<std::string> FromHex(std::string_view hex) {
  if (hex.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  for (; !hex.empty(); hex.remove_prefix(2)) {
    unsigned byte = 0;
    const auto [end, error] = std::from_chars(hex.data(), hex.data() + 2, byte, 16);
    if (error != std::errc() || end != hex.data() + 2) return std::nullopt;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

void RunInput(std::string_view input) {
  const auto copy = std::make_unique<std::uint8_t[]>(input.size());
  std::copy(input.begin(), input.end(), copy.get());
  LLVMFuzzerTestOneInput(copy.get(), input.size());
}

std::optional<int> RunCommand(int argc, char** argv) {
  if (argc != 3) return std::nullopt;
  const std::string_view verb = argv[1];
  if (verb == "--write-corpus") return WriteCorpus(argv[2]);
  if (verb != "--hex") return std::nullopt;
  const auto input = FromHex(argv[2]);
  if (!input) {
    fmt::print(stderr, "--hex: expected two hexadecimal digits for each byte\n");
    return 2;
  }
  RunInput(*input);
  fmt::print("{} bytes: all that must hold does\n", input->size());
  return 0;
}

}  // namespace rondo::fuzz
