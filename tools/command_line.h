// The command line of `rondo`: one program, a subcommand per job (common/commands.h).
#pragma once

namespace rondo {

// As main() is called; returns the exit code.
int RunCommandLine(int argc, char** argv);

}  // namespace rondo
