// rondo trace: merges the dumps of flight recorders, reports what is wrong, and writes the timeline.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "tools/common/commands.h"
#include "tools/common/output.h"
#include "tools/trace/dump.h"
#include "tools/trace/events.h"
#include "tools/trace/findings.h"
#include "tools/trace/merge.h"
#include "tools/trace/report.h"

namespace rondo {
namespace {

struct TraceFlags {
  std::vector<std::string> files;
  std::string out;
  std::string json;
};

Result<Trace> ReadTrace(const std::vector<std::string>& arguments) {
  RONDO_ASSIGN(const std::vector<std::string> files, FindDumps(arguments));
  std::vector<Dump> dumps;
  for (const std::string& file : files) {
    RONDO_ASSIGN(Dump dump, ReadDump(file));
    dumps.push_back(std::move(dump));
  }
  return MergeDumps(std::move(dumps));
}

int RunTrace(const TraceFlags& flags) {
  if (flags.out == "-" && flags.json == "-")
    return Complain("trace", "--out and --json: only one of them can write to stdout", kExitWrongUsage);
  const Result<Trace> trace = ReadTrace(flags.files);
  if (!trace) return Complain("trace", trace.error().message(), kExitWrongUsage);
  const std::vector<GroupFindings> findings = FindingsOf(*trace);
  const bool data_on_stdout = flags.out == "-" || flags.json == "-";
  fmt::print(data_on_stdout ? stderr : stdout, "{}", TraceText(*trace, findings));
  Status written;
  if (!flags.out.empty()) written = WriteOutput("--out", flags.out, TraceEvents(*trace));
  if (written && !flags.json.empty()) written = WriteOutput("--json", flags.json, TraceJson(*trace, findings));
  if (!written) return Complain("trace", written.error().message(), kExitWrongUsage);
  for (const GroupFindings& group : findings)
    if (!group.IsHealthy()) return kExitFailed;
  return kExitDone;
}

}  // namespace

void AddTraceCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<TraceFlags>();
  CLI::App* trace =
      app.add_subcommand("trace", "Merge the ranks' records, and show which rank is missing, stuck, wrong or late");
  trace->footer(
      "Ranks write their records when they fail, on SIGUSR1 and at the end, if they were given a\n"
      "folder (rondo perf --record-dir, CommunicatorOptions::record_dir). Give the files or the folder.\n"
      "Exit code 1 if something is wrong with the job: a rank without records, operations that do not match, a rank\n"
      "that others wait for, an error. 2 if the files cannot be read or do not belong together.\n"
      "Example: rondo trace records --out trace.json, then open trace.json in ui.perfetto.dev");
  trace->add_option("files", flags->files, "Dumps, or folders of dumps (rondo-*.json)")
      ->required()
      ->type_name("FILE|DIR");
  trace->add_option("--out", flags->out, "Write the timeline for chrome://tracing or ui.perfetto.dev; - is stdout")
      ->type_name("FILE|-");
  trace->add_option("--json", flags->json, "Write the findings as JSON; - is stdout")->type_name("FILE|-");
  trace->callback([flags, &exit_code] { exit_code = RunTrace(*flags); });
}

}  // namespace rondo
