// The subcommands of `rondo`, a folder each. An Add function hangs its subcommand into the program; when the command
// line names it, its callback does the job and leaves the exit code.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace rondo {

// The exit codes of every subcommand, for scripts to rely on. Two exceptions: rondo run gives the exit code of the rank
// that failed first, and whoever is ended by another signal gives 128 + its number.
constexpr int kExitDone = 0;
constexpr int kExitFailed = 1;  // the job: wrong results, a rank lost, a bar missed
constexpr int kExitWrongUsage = 2;
constexpr int kExitInterrupted = 130;  // 128 + SIGINT

// `command_line`: all of it, with the program's name, by which a subcommand starts itself again as ranks.
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

// Puts the "--" in front of the command of `rondo run -N 2 CMD --flags-of-CMD`, so that its flags are not taken for
// ours.
void MarkCommand(const CLI::App& app, std::vector<std::string>& arguments);

}  // namespace rondo
