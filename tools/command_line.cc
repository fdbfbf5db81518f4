#include "tools/command_line.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "base/version.h"
#include "tools/common/commands.h"
#include "tools/common/flags.h"
#include "tools/common/init_process.h"
#include "tools/common/output.h"
#include "tools/common/standard_streams.h"

namespace {

// The subcommand that the command line names. If it names none, the program itself.
const CLI::App& InUse(const CLI::App& app) {
  const std::vector<const CLI::App*> named = app.get_subcommands([](const CLI::App* sub) { return sub->parsed(); });
  return named.empty() ? app : *named.front();
}

int ReportUsage(const CLI::App& app, const std::vector<std::string>& arguments, const CLI::ParseError& error) {
  const CLI::App& used = InUse(app);
  const std::string program = &used == &app ? "rondo" : "rondo " + used.get_name();
  std::string hint;
  std::string text = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::vector<std::string> unknown = app.remaining(/*recurse=*/true);
    const std::string first = unknown.empty() ? "" : unknown.front();
    text = fmt::format("does not know '{}'", first);
    const std::string nearest = rondo::NearestFlag(used, first);
    if (!nearest.empty()) hint = fmt::format(" (did you mean {}?)", nearest);
  }
  if (&used == &app && !arguments.empty() && arguments.front().rfind('-', 0) != 0) {
    text = fmt::format("there is no subcommand '{}'", arguments.front());
  }
  rondo::PrintError("{}: {}{}\nTry '{} --help'.\n", program, text, hint, program);
  return rondo::kExitWrongUsage;
}

// `failed`: the errno of a failed write to stdout, or 0. For EPIPE no message is printed, because the reader has
// stopped on purpose (| head).
int ReportOutput(int failed, int exit_code) {
  if (failed == 0) return exit_code;
  if (failed != EPIPE) rondo::PrintError("rondo: stdout cannot be written: {}\n", std::strerror(failed));
  return exit_code == rondo::kExitDone ? rondo::kExitFailed : exit_code;
}

}  // namespace

int rondo::RunCommandLine(int argc, char** argv) {
  OpenStandardStreams();
  ServeAsInit();
  MakeStandardStreamsWait();
  CLI::App app("Rondo: collective communication. N processes each make one call, and every one of them holds the sum.",
               "rondo");
  app.set_version_flag("--version", fmt::format("rondo {}", rondo::kRondoVersion), "Print the version");
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::simple);
  app.get_formatter()->column_width(34);

  int exit_code = rondo::kExitDone;
  const std::vector<std::string> command_line(argv, argv + argc);
  rondo::AddRunCommand(app, exit_code);
  rondo::AddRunAgentCommand(app, exit_code);
  rondo::AddPerfCommand(app, command_line, exit_code);
  rondo::AddExplainCommand(app, exit_code);
  rondo::AddDoctorCommand(app, exit_code);
  rondo::AddVerifyCommand(app, exit_code);
  rondo::AddChaosCommand(app, exit_code);
  rondo::AddTuneCommand(app, command_line, exit_code);
  rondo::AddTraceCommand(app, exit_code);
  rondo::AddStoreCommand(app, exit_code);

  std::vector<std::string> arguments(argv + 1, argv + argc);
  rondo::MarkCommand(app, arguments);
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // the order that CLI11 expects
  try {
    app.parse(reversed);
  } catch (const CLI::Success& wanted) {  // --help, --version
    std::ostringstream text;              // not std::cout, because its writes fail on a full non-blocking descriptor
    exit_code = app.exit(wanted, text, text);
    std::fputs(text.str().c_str(), stdout);
  } catch (const CLI::ParseError& error) {
    return ReportUsage(app, arguments, error);
  } catch (const std::system_error& failed) {
    if (std::ferror(stdout) != 0) return ReportOutput(failed.code().value(), exit_code);  // thrown by fmt::print
    rondo::PrintError("rondo: {}\n", failed.what());
    return rondo::kExitFailed;
  }
  return ReportOutput(rondo::FlushStdout(), exit_code);
}
