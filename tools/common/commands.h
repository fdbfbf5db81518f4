// The subcommands of `rondo`, one folder each. Each Add function adds one subcommand to the program. If the command
// line names this subcommand, a callback runs the subcommand and sets the exit code.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace rondo {

// The exit codes of every subcommand, which scripts can rely on. There are two exceptions: rondo run returns the exit
// code of the rank that failed first, and a command that is ended by a signal other than SIGINT returns 128 + the
// signal's number.
constexpr int kExitDone = 0;
constexpr int kExitFailed = 1;  // the task failed: wrong results, a lost rank, or a limit that was not met
constexpr int kExitWrongUsage = 2;
constexpr int kExitInterrupted = 130;  // 128 + SIGINT

// `command_line`, in two of the functions below: the whole command line with the program's name. The subcommand uses it
// to start its ranks.
void AddRunCommand(CLI::App& app, int& exit_code);
void AddRunAgentCommand(CLI::App& app, int& exit_code);
void AddPerfCommand(CLI::App& app, const std::vector<std::string>& command_line, int& exit_code);
void AddExplainCommand(CLI::App& app, int& exit_code);
void AddVerifyCommand(CLI::App& app, int& exit_code);
void AddDoctorCommand(CLI::App& app, int& exit_code);
void AddChaosCommand(CLI::App& app, int& exit_code);
void AddTuneCommand(CLI::App& app, const std::vector<std::string>& command_line, int& exit_code);
void AddStoreCommand(CLI::App& app, int& exit_code);
void AddTraceCommand(CLI::App& app, int& exit_code);

// Inserts "--" before the command in `rondo run -N 2 CMD --flags-of-CMD`, so that rondo does not parse the flags of
// CMD.
void MarkCommand(const CLI::App& app, std::vector<std::string>& arguments);

}  // namespace rondo
