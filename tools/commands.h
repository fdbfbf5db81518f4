// The subcommands of `rondo`, a file each. An Add function hangs its subcommand into the program; when the command line
// names it, its callback does the job and leaves the exit code: 0 done, 1 the job failed, 2 wrong usage, 130
// interrupted.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace rondo {

void AddRunCommand(CLI::App& app, int& exit_code);
void AddPerfCommand(CLI::App& app, int& exit_code);
void AddExplainCommand(CLI::App& app, int& exit_code);
void AddVerifyCommand(CLI::App& app, int& exit_code);
void AddStoreCommand(CLI::App& app, int& exit_code);

// Puts the "--" in front of the command of `rondo run -N 2 CMD --flags-of-CMD`, so that its flags are not taken for
// ours.
void MarkCommand(const CLI::App& app, std::vector<std::string>& arguments);

}  // namespace rondo
