// Fuzzes the parsers of the tools' flags (sizes, seconds, lists, mistyped flags), and the parser of lists of CPUs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/printable.h"
#include "base/seconds.h"
#include "collectives/cpu_list.h"
#include "tests/fuzz/harness.h"
#include "tools/common/comma_list.h"
#include "tools/common/flags.h"
#include "tools/common/sizes.h"

namespace rondo::fuzz::cli_text_fuzz {
void CheckSize(std::string_view text) {
  const Result<std::uint64_t> size = ParseSize(text);
  CheckError(size);
  if (!size) return;
  RONDO_HOLDS(ParseSize(std::to_string(*size)) == *size);
  RONDO_HOLDS(IsPrintable(FormatSize(*size)));
}

void CheckSeconds(const std::string& text) {
  const Result<Duration> seconds = ParseSeconds(text);
  CheckError(seconds);
  if (seconds) RONDO_HOLDS(*seconds > Duration::zero() && *seconds <= std::chrono::seconds(1'000'000));
}

void CheckList(std::string_view text) {
  const std::vector<std::string> items = SplitAtCommas(text);
  RONDO_HOLDS(items.size() == 1 + static_cast<std::size_t>(std::count(text.begin(), text.end(), ',')));
  RONDO_HOLDS(fmt::format("{}", fmt::join(items, ",")) == text);
}

void CheckCpus(std::string_view text) {
  const std::vector<bool> cpus = ParseCpuList(text);
  RONDO_HOLDS(cpus.size() <= 1024, "{} CPUs", cpus.size());
  RONDO_HOLDS(ParseCpuList(PrintCpuList(cpus)) == cpus);
  RONDO_HOLDS(CountCpus({text, text}) == std::count(cpus.begin(), cpus.end(), true));
}

void CheckFlag(const std::string& mistyped) {
  CLI::App app;
  AddText(
      app, "-b,--begin", [](const std::string&) { return ""; }, "BYTES", "");
  AddText(
      app, "--transport", [](const std::string&) { return ""; }, "NAME", "");
  const std::string nearest = NearestFlag(app, mistyped);
  RONDO_HOLDS(nearest.empty() || nearest == "--begin" || nearest == "--transport" || nearest == "--help", "{}",
              nearest);
}

Corpus HarnessCorpus() {
  return {.seeds = {"64", "1.5M", "2GiB", "18446744073709551615", "17179869184G", "0.0000000001", "1e-12", "999999.5",
                    "nan", "a,b,,c", "0-3,8", "1023,5-2", "--beginn=4", "--trnsport"},
          .words = {"KiB", "1e", "-", ",", ".", "inf", "1023"}};
}

void CheckInput(std::string_view input) {
  const Allocations allocations;
  const std::string text(input);
  CheckSize(input);
  CheckSeconds(text);
  CheckList(input);
  CheckCpus(input);
  CheckFlag(text);
  allocations.CheckLargest(65536 + 64 * input.size());
}

}  // namespace rondo::fuzz::cli_text_fuzz
