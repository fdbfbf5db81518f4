// The command line of `rondo`: one program with a subcommand per task (common/commands.h).
#pragma once

namespace rondo {

// Takes the arguments of main() and returns the exit code.
int RunCommandLine(int argc, char** argv);

}  // namespace rondo
